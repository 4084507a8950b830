//! TCP_USER_TIMEOUT: ends a connection if data of its program has not been acknowledged for the time that the program
//! has set.
//!
//! The kernel counts from the time when it sent the oldest unacknowledged byte. A NIC does the same, with one
//! difference. One channel carries all connections to a remote NIC. While the remote NIC acknowledges anything, later
//! data in the channel counts as on its way. Acknowledged data is in the remote program's segment, whether or not the
//! program reads it. If the program does not read, the library leaves the decision to the kernel (`UNTIL_FULL` in
//! `crates/sockets`).
//!
//! An agent that was itself stopped has sent nothing meanwhile. So, as in the kernel, a connection ends only if
//! retransmitted frames got no answer. All received frames must have been processed, too. If the agents' TCP
//! connection has ended, the time counts from that end. The cause of that end may not affect the connection's own
//! path.

use super::Nic;
use crate::connection::Waits;
use crate::wire::{Id, Message};
use sovia_link::Time;
use sovia_proto::word;
use sovia_sys::clock;
use std::collections::BTreeSet;

/// Connections that wait for an acknowledgement and have a timeout.
#[derive(Debug, Default)]
pub(super) struct Impatient {
    all: BTreeSet<Id>,
    /// Earliest possible timeout, in nanoseconds.
    due: u64,
    /// Number of turns since then in which something was received.
    heard: u32,
}

impl Impatient {
    /// Returns when to check for timeouts.
    pub(super) fn due(&self) -> Option<u64> {
        (!self.all.is_empty()).then_some(self.due)
    }

    fn add(&mut self, id: Id, due: u64) {
        self.due = if self.all.is_empty() { due } else { self.due.min(due) };
        self.all.insert(id);
    }
}

const NS_PER_MS: u64 = 1_000_000;
/// Number of retransmissions in vain after which a connection may time out.
const TRIES: u32 = 2;
/// Number of turns after which all frames from before the timeout have been processed, even if more keep arriving.
const TURNS: u32 = 1024;

impl Nic {
    /// Starts the wait for an acknowledgement. Call this when a program's data has been sent, or waits for room.
    pub(super) fn await_answer(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((_, reflection)) = &connection.joined else { return };
        let timeout = reflection.user_timeout().saturating_mul(NS_PER_MS);
        let peer = &self.peers[connection.peer];
        let Some(channel) = peer.channel.as_ref().filter(|_| timeout != 0) else { return };
        let until = channel.next_part() + channel.parts_of(peer.bundle.len());
        let before = connection.waits.filter(|waits| waits.until > channel.first_part());
        let since = before.map_or_else(clock::now_ns, |waits| waits.since);
        connection.waits = Some(Waits { since, until });
        self.impatient.add(id, since.saturating_add(timeout));
    }

    /// Ends connections that have waited too long. Call this after each turn in which something may have been
    /// received.
    pub(super) fn look_for_timeouts(&mut self, now: u64, has_heard: bool) {
        if self.impatient.due().is_none_or(|due| due > now) {
            return;
        }
        if has_heard && self.impatient.heard < TURNS {
            self.impatient.heard += 1;
            return;
        }
        let mut ended = Vec::new();
        for id in core::mem::take(&mut self.impatient).all {
            match self.timeout_of(id, now) {
                Some(due) if due <= now => ended.push(id),
                Some(due) => self.impatient.add(id, due),
                None => {}
            }
        }
        for id in ended {
            self.time_out(id);
        }
    }

    /// Returns when a connection times out, if it waits for an acknowledgement.
    fn timeout_of(&self, id: Id, now: u64) -> Option<u64> {
        let connection = self.connections.get(&id)?;
        let (waits, (_, reflection)) = (connection.waits?, connection.joined.as_ref()?);
        let timeout = reflection.user_timeout().saturating_mul(NS_PER_MS);
        // Data of a program that has left the VI must still arrive.
        if timeout == 0 || connection.is_left || connection.is_alone {
            return None;
        }
        let peer = &self.peers[connection.peer];
        let is_told = !peer.untold.contains(&id);
        let channel = peer.channel.as_ref()?;
        let is_acknowledged = channel.first_part() >= waits.until;
        if is_told && is_acknowledged {
            return None;
        }
        let lost_at = peer.lost_at().unwrap_or(0);
        let due = waits.since.max(peer.progressed_at).max(lost_at).saturating_add(timeout);
        if !peer.is_met || channel.tries() >= TRIES {
            return Some(due);
        }
        // The connection does not time out before the next retransmission.
        Some(due.max(channel.poll_timeout().map_or(now, Time::nanos).max(now) + 1))
    }

    fn time_out(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((far, _)) = &connection.joined else { return };
        let far = *far;
        if let Some(program) = self.programs.get(&connection.program) {
            connection.break_off(program, word::TIMED_OUT);
        }
        // The message is sent when the peer can be reached. The remote program's TCP may not learn of the end.
        self.peers[connection.peer].say(Message::Broken(far));
        self.end_if_over(id);
    }
}
