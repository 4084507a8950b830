//! The receiver's end of a VI.

use super::{LinkId, MakeError, make_vi};
use crate::credit::{Posted, RECEIVES, TOLD_MAX};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::{Done, Nic, Slots, Vi};

/// End of a VI that receives packets and sends counts.
pub(crate) struct Receiver<N: Nic> {
    pub(crate) id: LinkId,
    /// Index of the peer at the other end.
    pub(crate) peer: usize,
    pub(crate) vi: N::Vi,
    packets: Slots<N>,
    told: Slots<N>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    posted: Posted,
    /// Packets received so far.
    received: usize,
    /// Counts sent so far, and how many of these sends are complete.
    told: usize,
    done: usize,
}

/// Result of [`Receiver::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message of this many bytes has been copied.
    Message(usize),
    /// No message is waiting.
    Nothing,
    /// The connection has broken.
    Broken,
}

impl<N: Nic> Receiver<N> {
    /// Creates an unconnected receiver with all its receives posted.
    pub(crate) fn new(
        nic: &Arc<N>,
        cq: &N::Cq,
        id: LinkId,
        peer: usize,
        mtu: usize,
    ) -> Result<Receiver<N>, MakeError> {
        let vi = make_vi(&**nic, cq, id, mtu)?;
        let packets = Slots::new(nic, RECEIVES, mtu)?;
        let told = Slots::new(nic, TOLD_MAX, 0)?;
        for slot in 0..RECEIVES {
            vi.post_recv(packets.prepare(slot, mtu, None))?;
        }
        let state = State { posted: Posted::new(RECEIVES), received: 0, told: 0, done: 0 };
        Ok(Receiver { id, peer, vi, packets, told, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the first count. Call this when the VI is connected.
    pub(crate) fn begin(&self) {
        self.tell(&mut self.state());
    }

    /// Takes the oldest message and posts its receive again. `buffer` must hold `mtu` bytes.
    pub(crate) fn receive(&self, mtu: usize, buffer: &mut [u8]) -> Received {
        let mut state = self.state();
        let came = match self.vi.recv_done() {
            Done::Completion(came) => came,
            Done::NotDone | Done::Empty => return Received::Nothing,
        };
        let Ok(len) = came.result() else { return Received::Broken };
        let slot = state.received % RECEIVES;
        let len = len as usize;
        self.packets.read(slot, &mut buffer[..len]);
        if self.vi.post_recv(self.packets.prepare(slot, mtu, None)).is_err() {
            return Received::Broken;
        }
        state.received += 1;
        state.posted.again();
        self.tell(&mut state);
        Received::Message(len)
    }

    fn tell(&self, state: &mut State) {
        let Some(count) = state.posted.due() else { return };
        while let Done::Completion(_) = self.vi.send_done() {
            state.done += 1;
        }
        // Impossible with a correct peer: it takes a count before it can use the receives of so many steps.
        if state.told - state.done == TOLD_MAX {
            return;
        }
        let slot = state.told % TOLD_MAX;
        // If the post fails, the connection is gone. The receives then complete with an error.
        if self.vi.post_send(self.told.prepare(slot, 0, Some(count))).is_ok() {
            state.told += 1;
            state.posted.tell(count);
        }
    }
}
