//! What a program reads.

use super::write::too_late;
use super::{Core, Held, Inner, Kept, Patience};
use crate::error::TransferError;
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
    /// Waits until there is something to read: false at the stream's end.
    fn await_data<'c>(
        &'c self,
        room: usize,
        patience: Patience,
    ) -> Result<(Held<'c, N>, bool), TransferError> {
        let mut held = self.lock();
        // A message that lies here already needs no leave.
        let room = if held.kept.is_empty() { room.min(CHUNK_MAX as usize) as u32 } else { 0 };
        held.session.reading(room);
        loop {
            if held.kept.is_empty() {
                self.progress(&mut held);
            }
            if !held.kept.is_empty() {
                self.post_due(&mut held);
                return Ok((held, true));
            }
            if held.ended {
                return Ok((held, false));
            }
            if let Some(reset) = held.reset {
                return Err(reset.into());
            }
            held = match self.await_news(held, patience) {
                Some(held) => held,
                None => return Err(too_late(patience)),
            };
        }
    }

    /// Reads up to as many bytes as `out` has; 0 at the stream's end.
    pub(crate) fn read(&self, out: &mut [u8], patience: Patience) -> Result<usize, TransferError> {
        if out.is_empty() {
            return Ok(0);
        }
        let (mut held, more) = self.await_data(out.len(), patience)?;
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
        if let Some(Kept::Packet { receive, .. }) = inner.kept.pop_front() {
            self.post_receive(usize::from(receive));
            inner.session.consumed();
        }
    }

    /// Takes the first packet out of the stream, to be given back; `None` at the stream's end.
    pub(crate) fn borrow(&self, patience: Patience) -> Result<Option<Borrowed>, TransferError> {
        let (mut held, more) = self.await_data(CHUNK_MAX as usize, patience)?;
        if !more {
            return Ok(None);
        }
        Ok(held.kept.pop_front().map(|kept| match kept {
            Kept::Packet { receive, len, had } => Borrowed::Packet { receive, len, had },
            Kept::Heritage { mut bytes, had } => Borrowed::Bytes(bytes.split_off(had)),
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
            Kept::Packet { len, had, .. } => (len - had) as usize,
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
