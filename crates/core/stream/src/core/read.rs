//! Reading, and queries about a stream's state.

use super::write::too_late;
use super::{Core, Held, Inner, Kept, Patience, Place, Reader};
use crate::error::TransferError;
use crate::target::Lent;
use sovia_proto::configuration::CHUNK_MAX;
use sovia_proto::state::State;
use via::Nic;

/// A packet that the program borrows.
pub(crate) enum Borrowed {
    /// Bytes from `had` on in the buffer of the receive with this index.
    Packet { receive: u16, len: u32, had: u32 },
    /// Bytes in memory of their own.
    Bytes(Vec<u8>),
}

impl<N: Nic + 'static> Core<N> {
    /// Waits until data can be read. Returns false at the stream's end. `is_reader` is set if the peer may write to the
    /// calling thread's buffer. In this case the call does not return while the peer has permission to write there.
    fn await_data<'c>(
        &'c self,
        mut held: Held<'c, N>,
        room: usize,
        is_reader: bool,
        patience: Patience,
    ) -> Result<(Held<'c, N>, bool), TransferError> {
        // A message that has arrived needs no permission.
        let room = if held.kept.is_empty() { room.min(CHUNK_MAX as usize) as u32 } else { 0 };
        held.session.reading(room);
        loop {
            if held.kept.is_empty() {
                self.progress(&mut held);
            }
            match held.kept.front() {
                // The message is for the thread that owns the buffer.
                Some(Kept::Read { .. }) if !is_reader => {}
                Some(_) => {
                    self.post_due(&mut held);
                    return Ok((held, true));
                }
                None if is_reader && held.awaited == Some(Place::Reader) => {
                    if let Some(reset) = held.reset {
                        return Err(reset.into());
                    }
                }
                None if held.ended => return Ok((held, false)),
                None => {
                    if let Some(reset) = held.reset {
                        return Err(reset.into());
                    }
                    // Another thread may have used the permission, or have had a smaller buffer.
                    if self.configuration.handshake.asks() {
                        held.session.reading(room);
                        self.post_due(&mut held);
                    }
                }
            }
            held = match self.await_news(held, patience) {
                Some(held) => held,
                None => return Err(too_late(patience)),
            };
        }
    }

    /// Reads a message that the peer writes directly to the program's buffer. Returns `None` if the message may come,
    /// or has come, in another way. The thread stays until the message has arrived.
    fn read_lent(&self, out: &mut [u8]) -> Result<Option<usize>, TransferError> {
        let len = out.len().min(self.configuration.chunk as usize);
        if self.configuration.copies(len as u32) {
            return Ok(None);
        }
        // If the buffer cannot be registered, the caller reads by way of the landing buffer.
        let Ok(lent) = Lent::new(&self.tag, &mut out[..len]) else { return Ok(None) };
        let mut held = self.lock();
        // A message that has arrived needs no permission. Only one thread can be the reader.
        if !held.kept.is_empty() || held.reader.is_some() {
            return Ok(None);
        }
        held.reader = Some(Reader { to: lent.target(), room: lent.len() });
        let waited = self.await_data(held, lent.len() as usize, true, Patience::Endless);
        let (mut held, more) = match waited {
            Ok(waited) => waited,
            Err(error) => {
                // The connection is lost, so the peer gets no more permissions.
                self.lock().reader = None;
                return Err(error);
            }
        };
        held.reader = None;
        let read = match held.kept.front() {
            _ if !more => Some(0),
            Some(&Kept::Read { len }) => {
                // `len` is at most the reader's room, because the session refuses longer messages.
                held.kept.pop_front();
                held.session.consumed();
                Some(len as usize)
            }
            _ => None,
        };
        self.post_due(&mut held);
        self.tell(&held);
        Ok(read)
    }

    /// Reads up to `out.len()` bytes; 0 at the stream's end.
    pub(crate) fn read(&self, out: &mut [u8], patience: Patience) -> Result<usize, TransferError> {
        if out.is_empty() {
            return Ok(0);
        }
        if patience == Patience::Endless
            && self.landing.is_some()
            && let Some(read) = self.read_lent(out)?
        {
            return Ok(read);
        }
        let (mut held, more) = self.await_data(self.lock(), out.len(), false, patience)?;
        if !more {
            return Ok(0);
        }
        let inner = &mut *held;
        let mut got = 0;
        while got < out.len()
            && let Some(kept) = inner.kept.front_mut()
        {
            let rest = &mut out[got..];
            let (n, all) = match kept {
                Kept::Packet { receive, len, had } => {
                    let n = rest.len().min((*len - *had) as usize);
                    self.slots.copy_out(usize::from(*receive), *had as usize, &mut rest[..n]);
                    *had += n as u32;
                    (n, had == len)
                }
                Kept::Landed { len, had } => {
                    let n = rest.len().min((*len - *had) as usize);
                    if let Some(landing) = &self.landing {
                        landing.copy_out(*had as usize, &mut rest[..n]);
                    }
                    *had += n as u32;
                    (n, had == len)
                }
                Kept::Read { .. } => break,
                Kept::Heritage { bytes, had } => {
                    let n = rest.len().min(bytes.len() - *had);
                    rest[..n].copy_from_slice(&bytes[*had..*had + n]);
                    *had += n;
                    (n, *had == bytes.len())
                }
            };
            got += n;
            if all {
                self.done_with_first(inner);
            }
        }
        self.post_due(inner);
        Ok(got)
    }

    /// Releases the first packet after the program has read all of it.
    fn done_with_first(&self, inner: &mut Inner<N>) {
        match inner.kept.pop_front() {
            Some(Kept::Packet { receive, .. }) => {
                self.post_receive(usize::from(receive));
                inner.session.consumed();
            }
            Some(Kept::Read { .. } | Kept::Landed { .. }) => inner.session.consumed(),
            Some(Kept::Heritage { .. }) | None => {}
        }
    }

    /// Takes the first packet out of the stream for borrowing; `None` at the stream's end.
    pub(crate) fn borrow(&self, patience: Patience) -> Result<Option<Borrowed>, TransferError> {
        let (mut held, more) = self.await_data(self.lock(), CHUNK_MAX as usize, false, patience)?;
        if !more {
            return Ok(None);
        }
        let inner = &mut *held;
        if let Some(&Kept::Landed { len, had }) = inner.kept.front() {
            // Copy the bytes, because the next message needs the landing buffer.
            let mut bytes = vec![0; (len - had) as usize];
            if let Some(landing) = &self.landing {
                landing.copy_out(had as usize, &mut bytes);
            }
            self.done_with_first(inner);
            self.post_due(inner);
            return Ok(Some(Borrowed::Bytes(bytes)));
        }
        Ok(inner.kept.pop_front().map(|kept| match kept {
            Kept::Packet { receive, len, had } => Borrowed::Packet { receive, len, had },
            Kept::Heritage { mut bytes, had } => Borrowed::Bytes(bytes.split_off(had)),
            Kept::Read { .. } | Kept::Landed { .. } => Borrowed::Bytes(Vec::new()),
        }))
    }

    /// Takes back a borrowed packet, and posts its receive again.
    pub(crate) fn give_back(&self, receive: u16) {
        let mut held = self.lock();
        self.post_receive(usize::from(receive));
        held.session.consumed();
        self.post_due(&mut held);
    }

    /// Number of bytes that can be read without waiting.
    pub(crate) fn readable(&self) -> usize {
        let mut held = self.lock();
        self.progress(&mut held);
        let left = |kept: &Kept| match kept {
            Kept::Packet { len, had, .. } | Kept::Landed { len, had } => (len - had) as usize,
            // The reading thread returns these bytes.
            Kept::Read { .. } => 0,
            Kept::Heritage { bytes, had } => bytes.len() - had,
        };
        held.kept.iter().map(left).sum()
    }

    /// Returns true if a write would accept bytes now.
    pub(crate) fn is_writable(&self) -> bool {
        let mut held = self.lock();
        self.progress(&mut held);
        self.take_sent(&mut held);
        let inner = &*held;
        let free = !inner.free_sends.is_empty() && !inner.free_buffers.is_empty();
        free && inner.session.is_writable()
    }

    /// Waits until the peer's WAKEUP has arrived.
    pub(crate) fn await_normal(&self, patience: Patience) -> Result<(), TransferError> {
        let mut held = self.lock();
        loop {
            self.progress(&mut held);
            if held.session.agreed().is_some() {
                return Ok(());
            }
            if let Some(reset) = held.reset {
                return Err(reset.into());
            }
            held = self.await_news(held, patience).ok_or(too_late(patience))?;
        }
    }

    /// Returns the stream's state.
    pub(crate) fn state(&self) -> State {
        let mut held = self.lock();
        self.progress(&mut held);
        held.session.state()
    }

    /// Enables or disables combining.
    pub(crate) fn set_combining(&self, on: bool) {
        let mut held = self.lock();
        // Without a combining configuration, the combining buffer would have no timer and no bequest.
        if self.configuration.combine.is_some() {
            held.session.set_combining(on);
            self.post_due(&mut held);
        }
    }

    /// Sends the combined bytes that wait.
    pub(crate) fn flush(&self) {
        let mut held = self.lock();
        held.session.flush();
        self.progress(&mut held);
    }
}
