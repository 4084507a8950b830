//! How a connection is broken: the thread that finds an error raises a flag, and then flushes both queues, one after
//! the other, under their own locks.

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
    /// Breaks the connection of `attachment`. The caller holds the lock of a queue that has a
    /// lane of it, and calls [`Core::settle`] without the lock.
    #[cold]
    fn break_up(&self, attachment: &Attachment, cause: Cause, close: Close) {
        if matches!(cause, Cause::Corrupt(_)) {
            attachment.link.set_spoilt();
        }
        self.mark_broken(cause);
        attachment.close(close);
        attachment.wake_local();
    }

    /// Marks the connection broken; other threads learn of it from here.
    pub(in crate::vi) fn mark_broken(&self, cause: Cause) {
        self.cause().get_or_insert(cause);
        if !self.broken.swap(true, Ordering::SeqCst) {
            self.report(cause);
        }
    }

    /// Ends a connection that was broken for an RDMA that is not allowed.
    pub(in crate::vi) fn break_for_refusal(&self, attachment: &Attachment) {
        attachment.close(Close::Broken);
        attachment.wake_local();
        self.settle();
    }

    pub(super) fn report(&self, cause: Cause) {
        self.nic.report(AsyncError::of_vi(self.context, cause.code()));
    }

    /// After [`Core::break_up`]: receives what has come, flushes the rest. Looked at anew under each
    /// lock: the program may have disconnected and begun something new meanwhile.
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

    /// Looks for news from the far side, so that the state that is returned is the present one.
    pub(crate) fn catch_up(&self) {
        let recv = self.recv.lock();
        if let Some(cause) = recv.lane().and_then(RxLane::peer_closed)
            && !self.is_broken()
        {
            self.break_receiving(recv, cause, Close::Broken);
        }
    }

    /// Breaks the connection that the receive queue has a lane of.
    #[cold]
    pub(super) fn break_receiving(&self, recv: Held<'_, RecvSide>, cause: Cause, close: Close) {
        if let Some(lane) = recv.lane() {
            self.break_up(lane.attachment(), cause, close);
        }
        drop(recv);
        self.settle();
    }

    /// Breaks the connection for what the send queue has found out.
    #[cold]
    pub(super) fn give_up_sending(&self, mut send: Held<'_, SendSide>) {
        let cause = send.trouble.take().unwrap_or(Cause::PeerBroke);
        if let Some(lane) = &send.lane {
            self.break_up(lane.attachment(), cause, closing(cause, None));
        }
        drop(send);
        self.settle();
    }

    /// Breaks the connection for what the receive queue has found out.
    #[cold]
    pub(in crate::vi) fn give_up_receiving(&self, mut recv: Held<'_, RecvSide>) {
        let cause = recv.trouble.take().unwrap_or(Cause::PeerBroke);
        let close = closing(cause, Some(recv.level));
        self.break_receiving(recv, cause, close);
    }
}

/// What is published to the far side of an end for `cause`, by a receive queue of that level if it is one.
fn closing(cause: Cause, receiving: Option<Reliability>) -> Close {
    match cause {
        Cause::ReceiveQueueEmpty => Close::NoReceive,
        Cause::Descriptor(_) if receiving == Some(Reliability::RELIABLE_RECEPTION) => {
            Close::BadReceive
        }
        _ => Close::Broken,
    }
}
