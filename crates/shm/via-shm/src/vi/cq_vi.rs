//! Implements [`CqVi`] for a VI whose receive queue is attached to a completion queue.

use crate::completion::CqVi;
use crate::engine::Listed;
use crate::link::Attachment;
use crate::vi::inner::Core;
use crate::vi::recv::LookResult;
use std::sync::{Arc, Weak};

impl CqVi for Core {
    fn context(&self) -> u64 {
        self.context
    }

    fn attachment(&self) -> Option<Arc<Attachment>> {
        self.attachment()
    }

    #[inline]
    fn receive_for_cq(&self, mine: bool) -> bool {
        let mut recv = self.recv.lock();
        if self.is_broken() {
            recv.wind_up(&self.nic);
            return false;
        }
        match recv.receive_for_cq(&self.nic, mine) {
            Ok(at_once) => at_once,
            Err(LookResult::Trouble) => {
                self.give_up_receiving(recv);
                false
            }
            Err(LookResult::Message | LookResult::Nothing) => false,
        }
    }

    fn may_spin(&self) -> bool {
        self.may_spin()
    }

    fn arm(&self) {
        self.arm();
    }

    fn disarm(self: &Arc<Self>) {
        let mut recv = self.recv.lock();
        if recv.queue.notices.has_callbacks() {
            return;
        }
        recv.disarm();
        self.list_if_wanted(recv);
    }

    fn to_be_listed(self: &Arc<Self>) -> Option<Weak<dyn Listed>> {
        self.to_be_listed()
    }

    #[inline]
    fn has_staged(&self) -> bool {
        self.has_staged()
    }

    fn serve(&self) {
        self.serve();
    }
}
