//! TCP_USER_TIMEOUT: a connection whose program has set it ends when what the program has sent has not been acknowledged for so
//! long.
//!
//! The kernel counts from when it has sent the oldest byte that is not acknowledged. So does a NIC, but that one channel carries
//! all connections to a far NIC: for as long as that acknowledges anything, what is behind it in the channel is on its way. What the
//! far NIC has acknowledged lies in the far program's segment, whether that program reads it or not; where it does not, the
//! library has the kernel judge (`UNTIL_FULL` in `crates/sockets`).
//!
//! An agent that has stood still itself has asked no other agent meanwhile. So an end takes, as in the kernel, that frames have been sent
//! again and not answered, with everything heard that has come. Where the agents' conversation has ended the time counts from then:
//! whatever has ended that may not be on the connection's way.

use super::Nic;
use crate::connection::Waits;
use crate::wire::{Id, Message};
use sovia_link::Time;
use sovia_proto::word;
use sovia_sys::clock;
use std::collections::BTreeSet;

/// Connections that wait for an answer, and whose program does not wait for ever.
#[derive(Debug, Default)]
pub(super) struct Impatient {
    all: BTreeSet<Id>,
    /// Before that none of them has waited for too long (nanoseconds).
    due: u64,
    /// How often something has been heard since then.
    heard: u32,
}

impl Impatient {
    /// When to look whether one has.
    pub(super) fn due(&self) -> Option<u64> {
        (!self.all.is_empty()).then_some(self.due)
    }

    fn add(&mut self, id: Id, due: u64) {
        self.due = if self.all.is_empty() { due } else { self.due.min(due) };
        self.all.insert(id);
    }
}

const NS_PER_MS: u64 = 1_000_000;
/// So often frames must have been sent again in vain.
const TRIES: u32 = 2;
/// What had come when the time was over has been heard after so many turns, though more comes all the time.
const TURNS: u32 = 1024;

impl Nic {
    /// Some of what a program has sent has just been told to the far NIC, or waits for room.
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

    /// Ends connections that have waited for too long, after each turn in which something may have been heard.
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

    /// When a connection has waited for too long, if it waits.
    fn timeout_of(&self, id: Id, now: u64) -> Option<u64> {
        let connection = self.connections.get(&id)?;
        let (waits, (_, reflection)) = (connection.waits?, connection.joined.as_ref()?);
        let timeout = reflection.user_timeout().saturating_mul(NS_PER_MS);
        // What a program has sent that has left is to arrive.
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
        // Not before the next try.
        Some(due.max(channel.poll_timeout().map_or(now, Time::nanos).max(now) + 1))
    }

    fn time_out(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some((far, _)) = &connection.joined else { return };
        let far = *far;
        if let Some(program) = self.programs.get(&connection.program) {
            connection.break_off(program, word::TIMED_OUT);
        }
        // When it can be told: its program's TCP may not hear of the end.
        self.peers[connection.peer].say(Message::Broken(far));
        self.end_if_over(id);
    }
}
