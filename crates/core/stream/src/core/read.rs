//! What a program reads.

use super::write::too_late;
use super::{Core, Held, Inner, Kept, Patience, Place, Reader};
use crate::error::TransferError;
use crate::target::Lent;
use sovia_proto::configuration::CHUNK_MAX;
use sovia_proto::state::State;
use via::Nic;

/// A packet that the program borrows.
pub(crate) enum Borrowed {
    /// The rest of the buffer of that receive, from byte `had` on.
    Packet { receive: u16, len: u32, had: u32 },
    /// Bytes of their own.
    Bytes(Vec<u8>),
}

impl<N: Nic + 'static> Core<N> {
    /// Waits until there is something to read: false at the stream's end. `is_reader` says that this thread's is the
    /// buffer that messages may be written to: then it stays until none is to be any more.
    fn await_data<'c>(
        &'c self,
        mut held: Held<'c, N>,
        room: usize,
        is_reader: bool,
        patience: Patience,
    ) -> Result<(Held<'c, N>, bool), TransferError> {
        // A message that lies here already needs no leave.
        let room = if held.kept.is_empty() { room.min(CHUNK_MAX as usize) as u32 } else { 0 };
        held.session.reading(room);
        loop {
            if held.kept.is_empty() {
                self.progress(&mut held);
            }
            match held.kept.front() {
                // Another thread's.
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
                    // Another thread may have used the room up, or have less.
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

    /// Reads a message that the peer writes to the program's own buffer; `None` if it may, or did, come in another way.
    /// The thread stays until it has its message.
    fn read_lent(&self, out: &mut [u8]) -> Result<Option<usize>, TransferError> {
        let len = out.len().min(self.configuration.chunk as usize);
        if self.configuration.copies(len as u32) {
            return Ok(None);
        }
        // What cannot be registered is copied from the landing buffer.
        let Ok(lent) = Lent::new(&self.tag, &mut out[..len]) else { return Ok(None) };
        let mut held = self.lock();
        // What is here already needs no leave; and there is one reader.
        if !held.kept.is_empty() || held.reader.is_some() {
            return Ok(None);
        }
        held.reader = Some(Reader { to: lent.target(), room: lent.len() });
        let waited = self.await_data(held, lent.len() as usize, true, Patience::Endless);
        let (mut held, more) = match waited {
            Ok(waited) => waited,
            Err(error) => {
                // The connection is lost: no leave is given any more.
                self.lock().reader = None;
                return Err(error);
            }
        };
        held.reader = None;
        let read = match held.kept.front() {
            _ if !more => Some(0),
            Some(&Kept::Read { len }) => {
                // No more than it had leave for: the session has refused what is longer.
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

    /// Reads up to as many bytes as `out` has; 0 at the stream's end.
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

    /// The program has had all of the first packet.
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

    /// Takes the first packet out of the stream, to be given back; `None` at the stream's end.
    pub(crate) fn borrow(&self, patience: Patience) -> Result<Option<Borrowed>, TransferError> {
        let (mut held, more) = self.await_data(self.lock(), CHUNK_MAX as usize, false, patience)?;
        if !more {
            return Ok(None);
        }
        let inner = &mut *held;
        if let Some(&Kept::Landed { len, had }) = inner.kept.front() {
            // The landing buffer is for the next one.
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

    /// The program gives a borrowed packet back.
    pub(crate) fn give_back(&self, receive: u16) {
        let mut held = self.lock();
        self.post_receive(usize::from(receive));
        held.session.consumed();
        self.post_due(&mut held);
    }

    /// Bytes that can be read without waiting.
    pub(crate) fn readable(&self) -> usize {
        let mut held = self.lock();
        self.progress(&mut held);
        let left = |kept: &Kept| match kept {
            Kept::Packet { len, had, .. } | Kept::Landed { len, had } => (len - had) as usize,
            // Its reader has it.
            Kept::Read { .. } => 0,
            Kept::Heritage { bytes, had } => bytes.len() - had,
        };
        held.kept.iter().map(left).sum()
    }

    /// Whether a write would take something now.
    pub(crate) fn is_writable(&self) -> bool {
        let mut held = self.lock();
        self.progress(&mut held);
        self.take_sent(&mut held);
        let inner = &*held;
        let free = !inner.free_sends.is_empty() && !inner.free_buffers.is_empty();
        free && inner.session.is_writable()
    }

    /// Waits until the peer's WAKEUP is there.
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

    /// The stream's state.
    pub(crate) fn state(&self) -> State {
        let mut held = self.lock();
        self.progress(&mut held);
        held.session.state()
    }

    /// Switches combining on or off.
    pub(crate) fn set_combining(&self, on: bool) {
        let mut held = self.lock();
        // Only where its buffer has a timer and an heir.
        if self.configuration.combine.is_some() {
            held.session.set_combining(on);
            self.post_due(&mut held);
        }
    }

    /// Sends what waits to be combined.
    pub(crate) fn flush(&self) {
        let mut held = self.lock();
        held.session.flush();
        self.progress(&mut held);
    }
}
