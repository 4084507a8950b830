//! Breaks a connection. The thread that finds an error first sets `Core::broken`. It then flushes the two work
//! queues one after the other, each under its own lock.

use super::Core;
use crate::bias::Held;
use crate::link::{Attachment, Close};
use crate::vi::lane::RxLane;
use crate::vi::recv::RecvSide;
use crate::vi::send::SendSide;
use core::sync::atomic::Ordering;
use via::error::Cause;
use via::{AsyncError, Reliability};

impl Core {
    /// Breaks the connection of `attachment`. The caller holds the lock of a queue with a lane of this connection.
    /// After the caller has released this lock, it must call [`Core::settle`].
    #[cold]
    fn break_up(&self, attachment: &Attachment, cause: Cause, close: Close) {
        if matches!(cause, Cause::Corrupt(_)) {
            attachment.link.set_corrupt();
        }
        self.mark_broken(cause);
        attachment.close(close);
        attachment.wake_local();
    }

    /// Marks the connection broken. If it was not marked before, reports `cause` to the program.
    pub(in crate::vi) fn mark_broken(&self, cause: Cause) {
        self.cause().get_or_insert(cause);
        if !self.broken.swap(true, Ordering::SeqCst) {
            self.report(cause);
        }
    }

    /// Breaks the connection after the peer has requested an RDMA that is not allowed.
    pub(in crate::vi) fn break_for_refusal(&self, attachment: &Attachment) {
        attachment.close(Close::Broken);
        attachment.wake_local();
        self.settle();
    }

    pub(super) fn report(&self, cause: Cause) {
        self.nic.report(AsyncError::of_vi(self.context, cause.code()));
    }

    /// Receives the messages that have arrived, and flushes the other descriptors, after [`Core::break_up`]. Checks
    /// `broken` again under each lock: the program may have disconnected the VI and started a new connection.
    #[cold]
    fn settle(&self) {
        let mut send = self.send.lock();
        if self.is_broken() {
            send.flush(&self.nic);
        }
        drop(send);
        let mut recv = self.recv.lock();
        if self.is_broken() {
            recv.wind_up(&self.nic);
        }
    }

    /// Breaks the connection if the peer has closed it. Call this function before the VI's state is returned to the
    /// program.
    pub(crate) fn catch_up(&self) {
        let recv = self.recv.lock();
        if let Some(cause) = recv.lane().and_then(RxLane::peer_closed)
            && !self.is_broken()
        {
            self.break_receiving(recv, cause, Close::Broken);
        }
    }

    /// Breaks the connection to which the receive queue's lane belongs.
    #[cold]
    pub(super) fn break_receiving(&self, recv: Held<'_, RecvSide>, cause: Cause, close: Close) {
        if let Some(lane) = recv.lane() {
            self.break_up(lane.attachment(), cause, close);
        }
        drop(recv);
        self.settle();
    }

    /// Breaks the connection because of the send queue's error.
    #[cold]
    pub(super) fn give_up_sending(&self, mut send: Held<'_, SendSide>) {
        let cause = send.trouble.take().unwrap_or(Cause::PeerBroke);
        if let Some(lane) = &send.lane {
            self.break_up(lane.attachment(), cause, closing(cause, None));
        }
        drop(send);
        self.settle();
    }

    /// Breaks the connection because of the receive queue's error.
    #[cold]
    pub(in crate::vi) fn give_up_receiving(&self, mut recv: Held<'_, RecvSide>) {
        let cause = recv.trouble.take().unwrap_or(Cause::PeerBroke);
        let close = closing(cause, Some(recv.level));
        self.break_receiving(recv, cause, close);
    }
}

/// Returns the reason to publish to the peer for `cause`. `receiving` is the reliability level if a receive queue found
/// the error.
fn closing(cause: Cause, receiving: Option<Reliability>) -> Close {
    match cause {
        Cause::ReceiveQueueEmpty => Close::NoReceive,
        Cause::Descriptor(_) if receiving == Some(Reliability::RELIABLE_RECEPTION) => {
            Close::BadReceive
        }
        _ => Close::Broken,
    }
}
