//! The three-way handshake (ICS figure 3a). The sender requests permission for each message. The receiver gives the
//! permission when its program reads. Then the sender sends the message. Each direction carries one message at a
//! time.

use super::leave::{Leave, Request, Target};
use crate::Violation;

/// State of the three-way handshakes of both directions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Exchange {
    /// Length of the message that this end wants to send, for which it needs the peer's permission.
    wanted: Option<u32>,
    /// Set if this end's program waits in its call until the message is written.
    waits: bool,
    /// Set once this end has sent its request.
    asked: bool,
    /// Permission that the peer has given and this end has not used.
    granted: Option<Leave>,
    /// The peer's request, until this end gives permission.
    request: Option<Request>,
    /// Number of bytes for which this end's program has room while it waits.
    room: u32,
    /// Length in bytes that this end has permitted to the peer, until the peer's message arrives.
    promised: Option<u32>,
}

/// Decodes a body that holds only a number, such as a permission without memory.
pub(super) fn number(body: &[u8]) -> Result<u32, Violation> {
    let bytes = body.try_into().map_err(|_| Violation("a handshake of the wrong length"))?;
    Ok(u32::from_le_bytes(bytes))
}

impl Exchange {
    /// Uses up the peer's permission, for a message of up to `len` bytes. If there is no permission, schedules a
    /// request and returns `None`. `waits` is true if the program waits in its call until the message is written.
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

    /// Returns the request that this end must send now. Returns each request once.
    pub(super) fn request_due(&mut self) -> Option<Request> {
        let bytes = self.wanted.filter(|_| !self.asked)?;
        self.asked = true;
        Some(Request { bytes, waits: self.waits })
    }

    /// Records a permission from the peer.
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

    /// Records a request of the peer.
    pub(super) fn requested(&mut self, request: Request) -> Result<(), Violation> {
        if request.bytes == 0 || self.request.is_some() || self.promised.is_some() {
            return Err(Violation("requests permission twice"));
        }
        self.request = Some(request);
        Ok(())
    }

    /// Records that the program has room for `room` bytes.
    pub(super) fn reading(&mut self, room: u32) {
        self.room = room;
    }

    /// Returns the peer's request that this end must permit now. Cuts the length to the program's room and to
    /// `chunk` bytes.
    pub(super) fn grant_due(&mut self, chunk: u32) -> Option<Request> {
        let Request { bytes, waits } = self.request.filter(|_| self.room > 0)?;
        let bytes = bytes.min(self.room).min(chunk);
        self.request = None;
        self.promised = Some(bytes);
        self.room = 0;
        Some(Request { bytes, waits })
    }

    /// Records that the peer's message has arrived.
    pub(super) fn delivered(&mut self, len: u32) -> Result<(), Violation> {
        match self.promised.take() {
            Some(promised) if len <= promised => Ok(()),
            _ => Err(Violation("data without permission")),
        }
    }
}
