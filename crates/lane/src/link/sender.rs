//! The sender's end of a VI.

use super::{LinkId, MakeError, make_vi};
use crate::credit::{Allowance, RECEIVES, TOLD_MAX};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::{Done, Nic, Slots, Vi};

/// Maximum number of posted sends: as many as the other end has receives for.
const SENDS: usize = RECEIVES;

/// End of a VI that sends packets and receives counts.
pub(crate) struct Sender<N: Nic> {
    pub(crate) id: LinkId,
    /// Index of the peer at the other end.
    pub(crate) peer: usize,
    pub(crate) vi: N::Vi,
    packets: Slots<N>,
    told: Slots<N>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    allowance: Allowance,
    /// Packets posted so far, and how many of these sends are complete.
    sent: usize,
    done: usize,
    /// Counts received so far.
    heard: usize,
    /// Protocol error of the other end, if there was one.
    fault: Option<&'static str>,
}

/// Result of [`Sender::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The packet is posted.
    Yes,
    /// The other end has no receive for the packet yet.
    NotYet,
    /// All sends are posted and not complete, although the other end has reported receives.
    Full,
    /// The connection has broken.
    Broken,
}

/// Result of [`Sender::hear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The other end has posted more receives.
    Receives,
    /// No count is waiting.
    Nothing,
    /// The connection has broken, or the other end has sent an invalid count.
    Broken,
}

impl<N: Nic> Sender<N> {
    /// Creates an unconnected sender with the receives for counts posted.
    pub(crate) fn new(
        nic: &Arc<N>,
        cq: &N::Cq,
        id: LinkId,
        peer: usize,
        mtu: usize,
    ) -> Result<Sender<N>, MakeError> {
        let vi = make_vi(&**nic, cq, id, mtu)?;
        let packets = Slots::new(nic, SENDS, mtu)?;
        let told = Slots::new(nic, TOLD_MAX, 0)?;
        for slot in 0..TOLD_MAX {
            vi.post_recv(told.prepare(slot, 0, None))?;
        }
        Ok(Sender { id, peer, vi, packets, told, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a packet if the credit and the send queue allow it.
    pub(crate) fn send(&self, packet: &[u8]) -> Sent {
        let mut state = self.state();
        while let Done::Completion(done) = self.vi.send_done() {
            if done.result().is_err() {
                return Sent::Broken;
            }
            state.done += 1;
        }
        if !state.allowance.is_there() {
            return Sent::NotYet;
        }
        if state.sent - state.done == SENDS {
            return Sent::Full;
        }
        let slot = state.sent % SENDS;
        self.packets.write(slot, packet);
        if self.vi.post_send(self.packets.prepare(slot, packet.len(), None)).is_err() {
            return Sent::Broken;
        }
        state.sent += 1;
        state.allowance.use_one();
        Sent::Yes
    }

    /// Returns the reason why no more packets can be sent.
    pub(crate) fn why(&self) -> String {
        let fault = self.state().fault.map(str::to_owned);
        let cause = || self.vi.cause().map(|cause| cause.to_string());
        fault.or_else(cause).unwrap_or_else(|| "the connection has ended".to_owned())
    }

    /// Takes the oldest count received from the other end, and applies it.
    pub(crate) fn hear(&self) -> Heard {
        let mut state = self.state();
        let told = match self.vi.recv_done() {
            Done::Completion(told) => told,
            Done::NotDone | Done::Empty => return Heard::Nothing,
        };
        if told.result().is_err() {
            return Heard::Broken;
        }
        let count = told.immediate.map(|count| state.allowance.told(count));
        if told.length != 0 || count != Some(Ok(())) {
            state.fault = Some("the peer sent an invalid count");
            return Heard::Broken;
        }
        let slot = state.heard % TOLD_MAX;
        state.heard += 1;
        match self.vi.post_recv(self.told.prepare(slot, 0, None)) {
            Ok(()) => Heard::Receives,
            Err(_) => Heard::Broken,
        }
    }
}

impl<N: Nic> PartialEq for Sender<N> {
    fn eq(&self, other: &Sender<N>) -> bool {
        self.id == other.id
    }
}
