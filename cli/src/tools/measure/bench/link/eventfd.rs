//! The limit if both ends sleep: an eventfd in each direction. It carries only the first byte of a message.

use std::fs::File;
use std::io::{self, Read, Write};

use super::Link;
use crate::measure::bench::task::Role;

/// One end of a pair of eventfds.
pub(in crate::measure::bench) struct Eventfds {
    to: File,
    from: File,
}

impl Eventfds {
    /// Makes an end from the eventfds for requests and for responses.
    pub(in crate::measure::bench) fn new(there: File, back: File, role: Role) -> Self {
        match role {
            Role::Requester => Self { to: there, from: back },
            Role::Responder => Self { to: back, from: there },
        }
    }
}

impl Link for Eventfds {
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        // A write of 0 would not wake the reader.
        let token = u64::from(data.first().copied().unwrap_or(0)) + 1;
        self.to.write_all(&token.to_ne_bytes())
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        let mut token = [0; 8];
        self.from.read_exact(&mut token)?;
        data[0] = (u64::from_ne_bytes(token) - 1) as u8;
        Ok(data.len())
    }
}
