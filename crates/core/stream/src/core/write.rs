//! Writing: copies, combines or registers the program's bytes, and sends them.

use super::{Core, Held, Inner, Patience, Sending};
use crate::buffer::Buffer;
use crate::error::{Reset, TransferError};
use crate::register::Lease;
use sovia_proto::configuration::Transfer;
use sovia_proto::packet::Immediate;
use sovia_proto::session::{NotWritable, Offer, Target};
use via::{Nic, Vi};

impl<N: Nic + 'static> Core<N> {
    /// Writes all bytes if the patience is endless. Otherwise writes the bytes that find room in time, at least one.
    pub(crate) fn write(&self, bytes: &[u8], patience: Patience) -> Result<usize, TransferError> {
        // A call that may not wait for its buffer must copy.
        let way = (patience != Patience::Endless).then_some(Transfer::Copy);
        let mut done = 0;
        let mut held = self.lock();
        while done < bytes.len() {
            held = match self.write_some(held, &bytes[done..], way, patience) {
                Ok((held, written)) => {
                    done += written;
                    self.await_written(held, patience)
                }
                Err((held, Stop::Wait)) => match self.await_news(held, patience) {
                    Some(held) => held,
                    None => return short(done, patience),
                },
                Err((held, Stop::Descriptors)) => match self.await_sent(held, patience) {
                    Some(held) => held,
                    None => return short(done, patience),
                },
                Err((_, Stop::Error(error))) => {
                    return if done > 0 { Ok(done) } else { Err(error) };
                }
            };
        }
        Ok(done)
    }

    /// Waits until RDMA writes have reached the peer's memory. The provider delivers a posted send even if this process
    /// ends. An RDMA write may need this process's NIC until it is done.
    fn await_written<'c>(&'c self, mut held: Held<'c, N>, patience: Patience) -> Held<'c, N> {
        if self.landing.is_none() {
            return held;
        }
        loop {
            self.take_sent(&mut held);
            // At most one message is in flight, and it is the only user of a copy buffer.
            if !held.sending.iter().any(|sending| matches!(sending, Sending::Copy(_))) {
                return held;
            }
            held = match self.await_sent(held, patience) {
                Some(held) => held,
                None => return self.lock(),
            };
        }
    }

    /// Writes as many bytes as fit one packet or the combining buffer.
    fn write_some<'c>(
        &'c self,
        mut held: Held<'c, N>,
        bytes: &[u8],
        way: Option<Transfer>,
        patience: Patience,
    ) -> Result<(Held<'c, N>, usize), (Held<'c, N>, Stop)> {
        let inner = &mut *held;
        let offer = match self.offer(inner, bytes.len(), way, patience) {
            Ok(offer) => offer,
            Err(stop) => return Err((held, stop)),
        };
        match offer {
            Offer::Wait => Err((held, Stop::Wait)),
            Offer::Join { at, len } => {
                self.join(inner, at as usize, &bytes[..len as usize]);
                Ok((held, len as usize))
            }
            Offer::Copy { len, immediate, to } => {
                self.copy(inner, &bytes[..len as usize], immediate, to);
                Ok((held, len as usize))
            }
            Offer::Register { len, immediate, to } => {
                let lease = Lease::new(&self.tag, bytes, len as usize);
                match lease {
                    Ok(lease) => Ok((self.send_leased(held, &lease, immediate, to), len as usize)),
                    // If registering fails, sends a copy as SOVIA_COPY does.
                    Err(_) => {
                        self.copy(inner, &bytes[..len as usize], immediate, to);
                        Ok((held, len as usize))
                    }
                }
            }
        }
    }

    /// Asks the session how to send `len` bytes. First posts packets that must go before.
    fn offer(
        &self,
        inner: &mut Inner<N>,
        len: usize,
        way: Option<Transfer>,
        patience: Patience,
    ) -> Result<Offer, Stop> {
        self.ready(inner)?;
        let refused = |inner: &Inner<N>, e| Stop::Error(self.not_writable(inner, e));
        let stays = patience == Patience::Endless;
        let offer = inner.session.write(len, way, stays).map_err(|e| refused(inner, e))?;
        if offer != Offer::Wait {
            return Ok(offer);
        }
        // Process arrivals only now: this costs about as much as the rest of a write, and their acknowledgements are
        // not needed earlier.
        self.progress(inner);
        self.ready(inner)?;
        inner.session.write(len, way, stays).map_err(|e| refused(inner, e))
    }

    /// Checks that a packet can be posted: a connection, free descriptors and free buffers.
    fn ready(&self, inner: &mut Inner<N>) -> Result<(), Stop> {
        if inner.unsendable || inner.reset.is_some() {
            let reset = inner.reset.unwrap_or_else(|| Reset::from(self.vi.cause()));
            return Err(Stop::Error(reset.into()));
        }
        if inner.free_sends.is_empty() || inner.free_buffers.is_empty() {
            self.take_sent(inner);
            if inner.free_sends.is_empty() || inner.free_buffers.is_empty() {
                return Err(Stop::Descriptors);
            }
        }
        Ok(())
    }

    fn not_writable(&self, inner: &Inner<N>, error: NotWritable) -> TransferError {
        match (error, inner.reset) {
            (_, Some(reset)) => reset.into(),
            (NotWritable::Shut, None) => TransferError::Shut,
            (NotWritable::Lost, None) => Reset::PeerClosed.into(),
        }
    }

    /// Appends bytes to the combining buffer.
    fn join(&self, inner: &mut Inner<N>, at: usize, bytes: &[u8]) {
        let buffer = match inner.combining {
            Some(buffer) => buffer,
            // A free buffer exists, because `ready` has checked.
            None => match inner.free_buffers.pop() {
                Some(buffer) => *inner.combining.insert(buffer),
                None => return,
            },
        };
        self.slots.fill(usize::from(buffer), at, bytes);
        let unsent = inner.session.sent();
        if let Some(will) = &mut inner.will {
            will.combined(unsent + at as u64, bytes, unsent);
        }
        self.mind_timer(inner);
    }

    /// Sends a copy of the bytes.
    fn copy(&self, inner: &mut Inner<N>, bytes: &[u8], immediate: Immediate, to: Option<Target>) {
        let (Some(buffer), Some(send)) = (inner.free_buffers.pop(), inner.free_sends.pop()) else {
            return;
        };
        self.slots.fill(usize::from(buffer), 0, bytes);
        let data = self.slots.filled(usize::from(buffer), bytes.len() as u32);
        self.post(inner, send, Sending::Copy(buffer), Some(data), immediate, to);
        self.take_sent(inner);
    }

    /// Sends directly from the program's memory, and waits until the NIC has finished with it.
    fn send_leased<'c>(
        &'c self,
        mut held: Held<'c, N>,
        lease: &Lease<'_, N>,
        immediate: Immediate,
        to: Option<Target>,
    ) -> Held<'c, N> {
        let Some(send) = held.free_sends.pop() else { return held };
        let (data, i) = (lease.segment(), usize::from(send));
        self.post(&mut held, send, Sending::Program(None), Some(data), immediate, to);
        loop {
            self.take_sent(&mut held);
            if let Sending::Program(Some(_)) = held.sending[i] {
                held.sending[i] = Sending::Free;
                held.free_sends.push(send);
                return held;
            }
            // The send always completes: with success, or flushed when the connection is lost.
            match self.await_sent(held, Patience::Endless) {
                Some(again) => held = again,
                None => return self.lock(),
            }
        }
    }

    /// Sends a lent buffer as one packet.
    pub(crate) fn lend(
        &self,
        buffer: Buffer<N>,
        len: usize,
        patience: Patience,
    ) -> Result<(), (Buffer<N>, TransferError)> {
        let mut held = self.lock();
        let mut done = 0;
        loop {
            let inner = &mut *held;
            let chunk = inner.session.agreed().map_or(usize::MAX, |terms| terms.chunk as usize);
            if len > chunk.min(buffer.len()) {
                let chunk = chunk.min(buffer.len());
                return Err((buffer, TransferError::TooLong { len, chunk }));
            }
            let stop = match self.offer(inner, len - done, Some(Transfer::Reg), patience) {
                Ok(Offer::Register { len: part, immediate, to }) => {
                    let from = done;
                    done += part as usize;
                    if done < len {
                        // The receiver has given permission for fewer bytes, so these bytes go first.
                        self.copy(inner, &buffer[from..done], immediate, to);
                        continue;
                    }
                    let Ok(again) = buffer.under(&self.tag) else {
                        // If registering fails, sends a copy as SOVIA_COPY does.
                        self.copy(inner, &buffer[from..len], immediate, to);
                        inner.returned.push_back(buffer);
                        return Ok(());
                    };
                    let Some(send) = inner.free_sends.pop() else { continue };
                    let data = again.as_ref().map_or_else(
                        || buffer.segment(from, len - from),
                        |again| again.memory.segment(from, (len - from) as u32, again.handle),
                    );
                    let sending = Sending::Lent { again, buffer };
                    self.post(inner, send, sending, Some(data), immediate, to);
                    self.take_sent(inner);
                    return Ok(());
                }
                Ok(_) => Stop::Wait,
                Err(stop) => stop,
            };
            let again = match stop {
                Stop::Wait => self.await_news(held, patience),
                Stop::Descriptors => self.await_sent(held, patience),
                Stop::Error(error) => return Err((buffer, error)),
            };
            match again {
                Some(again) => held = again,
                None => return Err((buffer, too_late(patience))),
            }
        }
    }

    /// Returns a lent buffer that has been sent.
    pub(crate) fn reclaim(&self, patience: Patience) -> Option<Buffer<N>> {
        let mut held = self.lock();
        loop {
            self.take_sent(&mut held);
            if let Some(buffer) = held.returned.pop_front() {
                return Some(buffer);
            }
            if !held.sending.iter().any(|sending| matches!(sending, Sending::Lent { .. })) {
                return None;
            }
            held = self.await_sent(held, patience)?;
        }
    }
}

/// Reason for which a write cannot continue at once.
enum Stop {
    /// The write needs a packet from the peer.
    Wait,
    /// The write needs a completed send.
    Descriptors,
    Error(TransferError),
}

/// Returns the result of a call whose time is over after `done` bytes.
fn short(done: usize, patience: Patience) -> Result<usize, TransferError> {
    if done > 0 { Ok(done) } else { Err(too_late(patience)) }
}

pub(super) fn too_late(patience: Patience) -> TransferError {
    match patience {
        Patience::None => TransferError::WouldBlock,
        Patience::Until(_) | Patience::Endless => TransferError::TimedOut,
    }
}
