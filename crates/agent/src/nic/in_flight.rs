//! Counts the messages that each program has in flight, and shows the program their greatest number.
//!
//! A message that a NIC carries takes longer than over TCP, unless many messages are in flight at the same time. So a
//! program takes its connections back to TCP while the number stays small ([`sovia_ring::layout::Side::in_flight`]).

use super::Nic;
use crate::connection::Connection;
use crate::program::{NIC, Program};
use crate::wire::Id;
use core::sync::atomic::Ordering;
use sovia_sys::clock;
use std::collections::HashMap;

const SECOND_NS: u64 = 1_000_000_000;

/// Messages in flight on the connections that a program has opened: sent, and not answered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    now: u32,
    /// Second in which the program last sent a message.
    second: u64,
    /// Greatest number in this second, and in the second before.
    greatest: [u32; 2],
}

impl InFlight {
    /// Counts messages sent in `second`. Returns the number that the program gets to see.
    fn add(&mut self, messages: u32, second: u64) -> u32 {
        if self.second != second {
            let before = if self.second + 1 == second { self.greatest[0] } else { 0 };
            (self.second, self.greatest) = (second, [0, before]);
        }
        self.now = self.now.saturating_add(messages);
        self.greatest[0] = self.greatest[0].max(self.now);
        self.greatest[0].max(self.greatest[1])
    }

    fn subtract(&mut self, messages: u32) {
        self.now = self.now.saturating_sub(messages);
    }
}

impl Nic {
    /// Counts messages that a program has sent.
    pub(super) fn count_sent(&mut self, id: Id, messages: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(program) = self.programs.get_mut(&connection.program) else { return };
        if !connection.is_connector {
            return;
        }
        let second = clock::now_ns() / SECOND_NS;
        connection.unanswered = connection.unanswered.saturating_add(messages);
        connection.sent_in = second;
        if program.in_flight.second != second {
            forget_silent(program, &mut self.connections, second);
        }
        let greatest = program.in_flight.add(messages, second);
        let word = second << 32 | u64::from(greatest);
        let shown = &program.segment.side(NIC).in_flight;
        if shown.load(Ordering::Relaxed) != word {
            shown.store(word, Ordering::Relaxed);
        }
    }

    /// Records that a program's messages have been answered.
    pub(super) fn count_answered(&mut self, id: Id) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.unanswered != 0
            && let Some(program) = self.programs.get_mut(&connection.program)
        {
            program.in_flight.subtract(core::mem::take(&mut connection.unanswered));
        }
    }
}

/// Forgets messages on which no answer may ever come: those of connections that have sent nothing for a second.
fn forget_silent(program: &mut Program, connections: &mut HashMap<Id, Connection>, second: u64) {
    for id in program.vis.values() {
        if let Some(connection) = connections.get_mut(id)
            && connection.sent_in + 1 < second
        {
            program.in_flight.subtract(core::mem::take(&mut connection.unanswered));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_the_greatest_number_of_this_second_and_the_one_before() {
        let mut messages = InFlight::default();
        assert_eq!(messages.add(3, 10), 3);
        messages.subtract(2);
        assert_eq!(messages.add(1, 10), 3);
        assert_eq!(messages.add(5, 10), 7);
        messages.subtract(7);
        assert_eq!(messages.add(1, 11), 7);
        assert_eq!(messages.add(1, 12), 2);
        assert_eq!(messages.add(1, 20), 3);
    }

    #[test]
    fn a_number_never_passes_its_ends() {
        let mut messages = InFlight::default();
        messages.subtract(1);
        assert_eq!(messages.add(u32::MAX, 1), u32::MAX);
        assert_eq!(messages.add(1, 1), u32::MAX);
    }
}
