//! Packet filters, for connections that must respect them (`--respect-filters`).
//!
//! The agent (`sovia agent --filters`) reports which packets between programs of this network namespace a filter
//! may stop. The agent reports once after a process has connected, and after each change. Without a report, every
//! connection counts as filtered. While a process has accelerated connections, its progress thread waits for
//! reports ([`watch`]). Each check of a new connection also receives waiting reports ([`refusal`]).

use crate::per_engine::per_engine;
use crate::{agents, config};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_control::Reason;
use sovia_proto::filters::{Flows, MESSAGE_MAX};
use sovia_sync::{RobustBox, rank};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, call, clock, poll};

/// Nanoseconds between two attempts to reach the agent.
const RETRY_NS: u64 = 50_000_000;

/// This process's connection to the agent.
struct FilterWatch {
    /// Process that has connected to the agent. A forked child has a copy of the connection, and must connect
    /// again.
    owner: i32,
    packets: Option<Packets>,
    /// The agent's last report: the flows that a filter may stop.
    stopped: Option<Flows>,
    /// Time of the last attempt to connect to the agent.
    tried: u64,
}

per_engine! {
    static WATCH: RobustBox<FilterWatch, { rank::FILTERS }> =
        RobustBox::new(FilterWatch { owner: 0, packets: None, stopped: None, tried: 0 });
    /// Number of this process's connections to the agent so far.
    static CONNECTED: AtomicU32 = AtomicU32::new(0);
}

/// Returns the reason why a connection between the ports `local` and `peer` may not be accelerated now, if any. The
/// second value is true if the agent has reported a change.
pub(crate) fn refusal(local: u16, peer: u16) -> (Option<Reason>, bool) {
    WATCH.with(|watch| {
        let has_changed = watch.receive_or_connect();
        let refusal = match &watch.stopped {
            None => Some(Reason::NoFilterAgent),
            Some(stopped) => stopped.concern(local, peer).then_some(Reason::PacketFilter),
        };
        (refusal, has_changed)
    })
}

/// Makes the instance `epoll` report the agent's messages with `token`. `seen` identifies the connection to the
/// agent that the instance already has. Returns true in a forked child that had the parent's connection. Then the
/// filters for inherited connections are unknown.
pub(crate) fn watch(epoll: i32, seen: &mut u32, token: u64) -> bool {
    let connected = CONNECTED.load(Ordering::Acquire);
    if *seen == connected {
        return false;
    }
    *seen = connected;
    WATCH.with(|watch| {
        let was_parents = watch.leave_parents();
        if let Some(packets) = &watch.packets {
            // Edge-triggered, because a copy of this process may keep the socket open after this process has closed
            // it.
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            // Ignore an error. The instance already has the socket if the progress thread was started again.
            let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, packets.raw(), events, token);
        }
        was_parents
    })
}

/// Receives the agent's messages. Returns true if the filters have changed or are unknown now.
pub(crate) fn receive() -> bool {
    WATCH.with(|watch| watch.leave_parents() | watch.receive())
}

/// Closes the connection to the agent. Called before this process changes its user or its rights.
pub(crate) fn leave() {
    WATCH.with(FilterWatch::forget);
}

/// Drops the parent's connection to the agent in a forked child. Returns true if there was such a connection. Then
/// the filters for inherited connections are unknown.
pub(crate) fn forked() -> bool {
    let was_parents = WATCH.with(|watch| watch.packets.is_some());
    if was_parents {
        leave();
    }
    was_parents
}

/// Takes this module's lock before a fork.
pub(crate) fn hold() {
    WATCH.hold();
}

/// Releases this module's lock after a fork, in parent and child.
pub(crate) fn release() {
    WATCH.release();
}

impl FilterWatch {
    fn forget(&mut self) {
        (self.packets, self.stopped) = (None, None);
    }

    /// Drops the connection to the agent if it belongs to the parent of this process. Returns true if there was
    /// such a connection.
    fn leave_parents(&mut self) -> bool {
        let process = call::getpid();
        let is_parents = self.owner != process && self.packets.is_some();
        if self.owner != process {
            self.forget();
            (self.owner, self.tried) = (process, 0);
        }
        is_parents
    }

    /// Receives the agent's messages, and connects to the agent if there is no connection. Returns true after a
    /// change.
    fn receive_or_connect(&mut self) -> bool {
        let mut has_changed = self.leave_parents();
        has_changed |= self.receive();
        let now = clock::now_ns();
        if self.packets.is_none() && now.saturating_sub(self.tried) >= RETRY_NS {
            self.tried = now;
            if let Ok(packets) = agents::connect(config::filter_agent()) {
                self.packets = Some(packets);
                CONNECTED.fetch_add(1, Ordering::Release);
                has_changed |= self.receive();
            }
        }
        has_changed
    }

    /// Receives the agent's messages. Returns true after a change.
    fn receive(&mut self) -> bool {
        let mut has_changed = false;
        while let Some(packets) = &self.packets {
            let mut message = [0; MESSAGE_MAX + 1];
            let flows = match packets.receive(&mut message) {
                Ok(received) => Flows::decode(&message[..received.len]),
                Err(Errno::EAGAIN) => return has_changed,
                Err(_) => None,
            };
            has_changed = true;
            match flows {
                Some(flows) => self.stopped = Some(flows),
                // The agent has ended, or its messages have another version.
                None => self.forget(),
            }
        }
        has_changed
    }
}
