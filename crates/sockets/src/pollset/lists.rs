//! The descriptors of one call, apart: accelerated connections, and what the kernel is asked.

use super::attached;
use crate::table::Ref;
use crate::{Outcome, errno, sets};
use smallvec::SmallVec;
use sovia_sys::poll::{self, PollFd};

/// Accelerated connections, and descriptors, whose lists need no memory of the heap. A call may have little stack.
pub(super) const FEW_OURS: usize = 3;
const FEW: usize = 8;

/// The program's list, and what becomes of it.
pub(super) struct Lists<'p> {
    fds: &'p mut [PollFd],
    /// Accelerated connections, by their places in the list.
    ours: SmallVec<[(usize, Ref); FEW_OURS]>,
    /// The same list as the kernel gets it: without ours, and with room for one more.
    kernel: SmallVec<[PollFd; FEW + 1]>,
}

impl<'p> Lists<'p> {
    pub(super) fn new(fds: &'p mut [PollFd]) -> Lists<'p> {
        let ours: SmallVec<[_; FEW_OURS]> =
            fds.iter().enumerate().filter_map(|(i, p)| Some((i, attached(p.fd)?))).collect();
        let mut kernel: SmallVec<[_; FEW + 1]> = SmallVec::with_capacity(fds.len() + 1);
        // The program may not have cleared what the last call has reported.
        kernel.extend(fds.iter().map(|p| PollFd { revents: 0, ..*p }));
        for &(i, _) in &ours {
            kernel[i].fd = -1;
        }
        Lists { fds, ours, kernel }
    }

    /// The accelerated connections; some may have left their VIs since.
    pub(super) fn ours(&self) -> impl ExactSizeIterator<Item = Ref> + '_ {
        self.ours.iter().map(|&(_, at)| at)
    }

    /// Gives the kernel those of ours that have gone back to TCP, or to a relay.
    pub(super) fn settle(&mut self) {
        for &(i, at) in &self.ours {
            crate::retreat::settle(at);
            let is_back = !at.is_attached_here();
            self.kernel[i].fd = if is_back { self.fds[i].fd } else { -1 };
        }
    }

    /// Whether the kernel has nothing to tell.
    pub(super) fn are_all_ours(&self) -> bool {
        self.kernel.iter().all(|p| p.fd < 0)
    }

    /// Whether one of ours has left its VI since [`settle`](Self::settle): the kernel is not asked for it.
    pub(super) fn any_has_left(&self) -> bool {
        self.ours.iter().any(|&(i, at)| self.kernel[i].fd < 0 && !at.is_attached_here())
    }

    /// Sets `revents` of ours; how many have any.
    pub(super) fn look(&mut self) -> usize {
        let mut n = 0;
        for &(i, at) in &self.ours {
            let p = &mut self.fds[i];
            let interest = p.events as u16 as u32;
            let mask = sets::readiness(at, p.fd, interest);
            p.revents =
                (mask as u16 as i16) & (p.events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL);
            n += usize::from(p.revents != 0);
        }
        n
    }

    /// Asks the kernel, without waiting.
    pub(super) fn ask_kernel(&mut self, mask: Option<&libc::sigset_t>) -> Outcome {
        poll::ppoll(&mut self.kernel, Some(0), mask).map_err(errno)
    }

    /// Reports `n` of ours that have just been found, and what the kernel's have become ready before them.
    pub(super) fn report(&mut self, n: usize) -> Outcome {
        if !self.are_all_ours() {
            // With something to report the kernel lets no signal in.
            self.ask_kernel(None)?;
        }
        Ok(n + self.merge())
    }

    /// Has `ask` ask the kernel for one descriptor more. Beside the answer: whether that is ready.
    pub(super) fn ask_kernel_with(
        &mut self,
        one_more: PollFd,
        ask: impl FnOnce(&mut [PollFd]) -> Outcome,
    ) -> (Outcome, bool) {
        self.kernel.push(one_more);
        let outcome = ask(&mut self.kernel);
        let is_ready = self.kernel.pop().is_some_and(|p| p.revents != 0);
        (outcome, is_ready)
    }

    /// What the kernel is asked.
    pub(super) fn kernel(&mut self) -> &mut [PollFd] {
        &mut self.kernel
    }

    /// Takes the kernel's answers over; how many there are.
    pub(super) fn merge(&mut self) -> usize {
        let mut n = 0;
        for (to, from) in self.fds.iter_mut().zip(&self.kernel) {
            if from.fd >= 0 {
                to.revents = from.revents;
                n += usize::from(from.revents != 0);
            } else if to.fd < 0 {
                to.revents = 0;
            }
        }
        n
    }
}
