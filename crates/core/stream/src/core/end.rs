//! Closing a stream, and loss of its connection.

use super::{Core, Inner, Kept, Sending};
use crate::error::Reset;
use sovia_proto::state::State;
use via::{Cause, Nic, Vi, ViState};

impl<N: Nic + 'static> Core<N> {
    /// Detects a lost connection. Call it when no receive is posted and none has completed. (A failed send is no proof:
    /// earlier messages of the peer may still lie in the receive queue.)
    pub(super) fn check_lost(&self, inner: &mut Inner<N>) {
        if self.vi.state() != ViState::Connected {
            self.lose(inner, None);
        }
    }

    /// Ends the connection, for the reason `why`, or for the VI's reason if `why` is `None`.
    pub(super) fn lose(&self, inner: &mut Inner<N>, why: Option<Reset>) {
        if inner.reset.is_some() {
            return;
        }
        let cause = self.vi.cause();
        if inner.session.state() != State::Finished {
            inner.reset = Some(why.unwrap_or(cause.into()));
        }
        if cause == Some(Cause::PeerDied) && why.is_none() {
            self.inherit(inner);
        }
        inner.session.lost();
        if why.is_some() {
            // The peer learns of the protocol violation only by losing the connection.
            self.disconnect(inner);
        }
        self.tell(inner);
    }

    /// Takes the bytes that a dead peer has left.
    fn inherit(&self, inner: &mut Inner<N>) {
        let place = if inner.ended { None } else { self.vi.bequest() };
        let will = place.and_then(|place| crate::will::Will::new(place, 1));
        let Some(heritage) = will.map(|will| will.read(inner.session.received())) else { return };
        inner.ended = heritage.ended;
        if !heritage.bytes.is_empty() {
            inner.kept.push_back(Kept::Heritage { bytes: heritage.bytes, had: 0 });
        }
    }

    /// Disconnects the VI. Does nothing on a second call.
    pub(super) fn disconnect(&self, inner: &mut Inner<N>) {
        inner.will = None;
        if !core::mem::replace(&mut inner.disconnected, true) {
            self.vi.disconnect();
            self.take_sent(inner);
        }
    }

    /// Closes the sending half.
    pub(crate) fn shutdown(&self) {
        let mut held = self.lock();
        let inner = &mut *held;
        inner.session.shutdown();
        self.progress(inner);
        if let Some(will) = &inner.will {
            will.ended(inner.session.sent() + u64::from(inner.session.waiting()));
        }
    }

    /// Closes the receiving half, and drops all packets that have arrived or will arrive.
    pub(crate) fn shutdown_reading(&self) {
        let mut held = self.lock();
        let inner = &mut *held;
        inner.session.shutdown_reading();
        for kept in core::mem::take(&mut inner.kept) {
            match kept {
                Kept::Packet { receive, .. } => {
                    self.post_receive(usize::from(receive));
                    inner.session.consumed();
                }
                Kept::Read { .. } | Kept::Landed { .. } => inner.session.consumed(),
                Kept::Heritage { .. } => {}
            }
        }
        inner.ended = true;
        self.progress(inner);
        self.tell(inner);
    }

    /// Tells the session that the program closes the stream for good. Calls to close both halves follow.
    pub(crate) fn forsake(&self) {
        self.lock().session.forsake();
    }

    /// Aborts the connection. Bytes that have not been sent are lost.
    pub(crate) fn abort(&self) {
        let mut held = self.lock();
        let inner = &mut *held;
        if !inner.session.state().is_over() {
            inner.reset = Some(Reset::Aborted);
        }
        inner.session.abort();
        self.disconnect(inner);
        self.tell(inner);
    }

    /// Continues to close a stream that its program has dropped. Returns true when no work is left.
    ///
    /// Bytes in completed sends reach the peer even after a disconnect (`VipDisconnect`). So the connection need not
    /// last until the peer has answered FIN. The connection must last while bytes wait for the window or for the NIC.
    pub(crate) fn closed(&self) -> bool {
        let mut held = self.lock();
        let inner = &mut *held;
        self.progress(inner);
        self.take_sent(inner);
        let state = inner.session.state();
        let said = !state.carries_data() && state != State::Opening;
        let done = inner.sending.iter().all(|sending| matches!(sending, Sending::Free));
        if !(state.is_over() || inner.unsendable || said && done) {
            return false;
        }
        self.disconnect(inner);
        inner.session.lost();
        true
    }
}
