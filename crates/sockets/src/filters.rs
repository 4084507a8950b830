//! Packet filters that connections respect (`--respect-filters`).
//!
//! The agent (`sovia agent --filters`) reports which packets between programs of this network namespace a filter may
//! stop. The agent reports once, and after each change. Without its report, every connection counts as filtered. Once a
//! connection is accelerated, the progress thread waits for reports ([`watch`]). Before that, each check takes the
//! reports ([`refusal`]).

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
struct Watch {
    /// Process that has connected. A forked child has a copy, and connects again.
    owner: i32,
    packets: Option<Packets>,
    /// The last report.
    stopped: Option<Flows>,
    /// Time of the last attempt to connect.
    tried: u64,
}

per_engine! {
    static WATCH: RobustBox<Watch, { rank::FILTERS }> =
        RobustBox::new(Watch { owner: 0, packets: None, stopped: None, tried: 0 });
    /// Incremented with each connection to the agent.
    static CONNECTED: AtomicU32 = AtomicU32::new(0);
}

/// Returns the reason why a connection between these ports may not be accelerated now, if any. Also returns true if the
/// agent has reported a change.
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

/// Makes an epoll instance report the agent's messages as `token`. `seen` identifies the agent's connection that the
/// instance already has. Returns true if the filters for connections inherited from a parent are unknown here.
pub(crate) fn watch(epoll: i32, seen: &mut u32, token: u64) -> bool {
    let connected = CONNECTED.load(Ordering::Acquire);
    if *seen == connected {
        return false;
    }
    *seen = connected;
    WATCH.with(|watch| {
        let was_parents = watch.leave_parents();
        if let Some(packets) = &watch.packets {
            // Edge-triggered: a copy of the process may keep the socket open after this process has closed it.
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            // The instance may already have the socket if this thread was started again.
            let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, packets.raw(), events, token);
        }
        was_parents
    })
}

/// Takes the agent's messages. Returns true after a change.
pub(crate) fn receive() -> bool {
    WATCH.with(|watch| watch.leave_parents() | watch.receive())
}

/// Closes the connection to the agent, because this process changes its user or its rights.
pub(crate) fn leave() {
    WATCH.with(Watch::forget);
}

/// Drops the parent's socket in a forked child. Returns true if there was one: then the filters for inherited
/// connections are unknown here.
pub(crate) fn forked() -> bool {
    let was_parents = WATCH.with(|watch| watch.packets.is_some());
    if was_parents {
        leave();
    }
    was_parents
}

/// Takes the lock before a fork.
pub(crate) fn hold() {
    WATCH.hold();
}

/// Releases the lock after a fork, in parent and child.
pub(crate) fn release() {
    WATCH.release();
}

impl Watch {
    fn forget(&mut self) {
        (self.packets, self.stopped) = (None, None);
    }

    /// Drops the connection of the process that has forked this one. Returns true if there was one.
    fn leave_parents(&mut self) -> bool {
        let process = call::getpid();
        let is_parents = self.owner != process && self.packets.is_some();
        if self.owner != process {
            self.forget();
            (self.owner, self.tried) = (process, 0);
        }
        is_parents
    }

    /// Takes the agent's messages, or connects to the agent. Returns true after a change.
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

    /// Takes the agent's messages. Returns true after a change.
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
                // The agent has ended, or has another version.
                None => self.forget(),
            }
        }
        has_changed
    }
}
