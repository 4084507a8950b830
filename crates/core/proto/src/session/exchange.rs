//! The three-way handshake: a request for each message, leave for it once the receiving program
//! wants it, then the message (ICS figure 3a). One message at a time in each direction.

use super::leave::{Leave, Request, Target};
use crate::Violation;

/// Both directions' handshakes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exchange {
    /// Our message's length, from the moment it is to be announced.
    wanted: Option<u32>,
    /// A call of our program's stays until its message is written.
    waits: bool,
    /// It has been announced.
    asked: bool,
    /// Leave has come.
    granted: Option<Leave>,
    /// What the peer asks leave for, until leave is given.
    request: Option<Request>,
    /// Bytes that our program has room for while it waits.
    room: u32,
    /// Leave given to the peer, until its message is there.
    promised: Option<u32>,
}

/// A body that is leave without memory: a number.
pub(super) fn number(body: &[u8]) -> Result<u32, Violation> {
    let bytes = body.try_into().map_err(|_| Violation("a handshake of the wrong length"))?;
    Ok(u32::from_le_bytes(bytes))
}

impl Exchange {
    /// Uses the leave to send up to `len` bytes, or sees to it that it is asked for; `waits`: the call stays until it is there.
    pub(super) fn leave_for(&mut self, len: u32, waits: bool) -> Option<(u32, Target)> {
        match self.granted.take() {
            Some(granted) => {
                (self.wanted, self.waits, self.asked) = (None, false, false);
                Some((len.min(granted.bytes), granted.to))
            }
            None => {
                self.wanted.get_or_insert(len);
                self.waits |= waits;
                None
            }
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.granted.is_some()
    }

    /// What to ask leave for, once.
    pub(super) fn request_due(&mut self) -> Option<Request> {
        let bytes = self.wanted.filter(|_| !self.asked)?;
        self.asked = true;
        Some(Request { bytes, waits: self.waits })
    }

    /// Leave has come.
    pub(super) fn granted(&mut self, leave: Leave) -> Result<(), Violation> {
        let wanted = self.wanted.filter(|_| self.asked && self.granted.is_none());
        match wanted {
            Some(wanted) if (1..=wanted).contains(&leave.bytes) => {
                self.granted = Some(leave);
                Ok(())
            }
            _ => Err(Violation("a permission that was not requested")),
        }
    }

    /// The peer asks for leave.
    pub(super) fn requested(&mut self, request: Request) -> Result<(), Violation> {
        if request.bytes == 0 || self.request.is_some() || self.promised.is_some() {
            return Err(Violation("requests permission twice"));
        }
        self.request = Some(request);
        Ok(())
    }

    /// The program has room for so many bytes.
    pub(super) fn reading(&mut self, room: u32) {
        self.room = room;
    }

    /// The request to give leave for, cut to at most a chunk.
    pub(super) fn grant_due(&mut self, chunk: u32) -> Option<Request> {
        let Request { bytes, waits } = self.request.filter(|_| self.room > 0)?;
        let bytes = bytes.min(self.room).min(chunk);
        self.request = None;
        self.promised = Some(bytes);
        self.room = 0;
        Some(Request { bytes, waits })
    }

    /// The peer's message is there.
    pub(super) fn delivered(&mut self, len: u32) -> Result<(), Violation> {
        match self.promised.take() {
            Some(promised) if len <= promised => Ok(()),
            _ => Err(Violation("data without permission")),
        }
    }
}
