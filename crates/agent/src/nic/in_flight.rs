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
        if program.in_flight.second() != second {
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
