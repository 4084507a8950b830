//! The descriptors of one call, apart: accelerated connections, and what the kernel is asked.

use super::{By, attached};
use crate::table::{self, Ref};
use crate::{Outcome, errno, sets};
use smallvec::SmallVec;
use sovia_sys::poll::{self, PollFd};

/// Accelerated connections, and descriptors, whose lists need no memory of the heap. A call may have little stack.
pub(super) const FEW_OURS: usize = 3;
const FEW: usize = 8;

/// Instead of a descriptor of the kernel's list: the connection is ours.
const OURS: i32 = -1;
/// Likewise: the kernel reports what the call does not, and would at once again.
const UNREPORTED: i32 = -2;

/// The program's list, and what becomes of it.
pub(super) struct Lists<'p> {
    fds: &'p mut [PollFd],
    by: By,
    /// How often the kernel has been asked, or the call has waited without it.
    asked: u32,
    /// Accelerated connections, by their places in the list.
    ours: SmallVec<[(usize, Ref); FEW_OURS]>,
    /// List that the kernel gets: the same without ours.
    kernel: SmallVec<[PollFd; FEW]>,
}

impl<'p> Lists<'p> {
    pub(super) fn new(fds: &'p mut [PollFd], by: By, has_waited: bool) -> Lists<'p> {
        let ours: SmallVec<[_; FEW_OURS]> =
            fds.iter().enumerate().filter_map(|(i, p)| Some((i, attached(p.fd)?))).collect();
        // The program may not have cleared what the last call has reported.
        let mut kernel: SmallVec<[_; FEW]> =
            fds.iter().map(|p| PollFd { revents: 0, ..*p }).collect();
        for &(i, _) in &ours {
            kernel[i].fd = OURS;
        }
        Lists { fds, by, asked: u32::from(has_waited), ours, kernel }
    }

    /// The accelerated connections; some may have left their VIs since.
    pub(super) fn ours(&self) -> impl ExactSizeIterator<Item = Ref> + '_ {
        self.ours.iter().map(|&(_, at)| at)
    }

    /// Gives the kernel those of ours that have gone back to TCP, or to a relay, or whose numbers the program has closed. Each look takes
    /// a number for what it names then.
    fn settle(&mut self) {
        for &(i, at) in &self.ours {
            crate::fallback::settle(at);
            if self.has_left(i, at) {
                self.kernel[i].fd = self.fds[i].fd;
            }
        }
    }

    /// Whether the kernel has nothing to tell.
    pub(super) fn are_all_ours(&self) -> bool {
        self.kernel.iter().all(|p| p.fd < 0)
    }

    /// Whether one of ours has left since the last [`look`](Self::look): the kernel is not asked for it.
    pub(super) fn any_has_left(&self) -> bool {
        self.ours.iter().any(|&(i, at)| self.has_left(i, at))
    }

    fn has_left(&self, i: usize, at: Ref) -> bool {
        self.kernel[i].fd == OURS && (!at.is_attached_here() || !table::refers(self.fds[i].fd, at))
    }

    /// Sets `revents` of ours, after what has left has been given to the kernel; how many have any.
    pub(super) fn look(&mut self) -> usize {
        self.settle();
        let mut n = 0;
        for &(i, at) in self.ours.iter().filter(|&&(i, _)| self.kernel[i].fd == OURS) {
            let p = &mut self.fds[i];
            let interest = p.events as u16 as u32;
            let mask = sets::readiness(at, p.fd, interest);
            p.revents = mask as u16 as i16 & self.by.reports(p.events);
            n += usize::from(p.revents != 0);
        }
        n
    }

    /// Asks the kernel, without waiting.
    pub(super) fn ask_kernel(&mut self, mask: Option<&libc::sigset_t>) -> Outcome {
        poll::ppoll(self.kernel(), Some(0), mask).map_err(errno)
    }

    /// Likewise under the thread's own mask: the call lets no signal in. One that comes by itself does not interrupt a look: nothing was
    /// ready then.
    pub(super) fn ask_kernel_under_own_mask(&mut self) -> Outcome {
        match self.ask_kernel(None) {
            Err(libc::EINTR) => Ok(0),
            outcome => outcome,
        }
    }

    /// Reports `n` of ours that have just been found, and what the kernel's have become ready before them.
    pub(super) fn report(&mut self, n: usize) -> Outcome {
        if !self.are_all_ours() {
            self.ask_kernel_under_own_mask()?;
        }
        Ok(n + self.merge())
    }

    /// Has `ask` ask the kernel for one descriptor more, in the place of one that it is not asked for. The kernel might refuse a
    /// longer list than the program has. Beside the answer: whether that is ready.
    pub(super) fn ask_kernel_with(
        &mut self,
        one_more: PollFd,
        ask: impl FnOnce(&mut [PollFd]) -> Outcome,
    ) -> (Outcome, bool) {
        // Without one all of them have left their VIs, and no peer rings.
        let place = self.kernel.iter().position(|p| p.fd < 0);
        let instead = place.map(|i| (i, core::mem::replace(&mut self.kernel[i], one_more)));
        let outcome = ask(self.kernel());
        let is_ready = instead
            .is_some_and(|(i, was)| core::mem::replace(&mut self.kernel[i], was).revents != 0);
        (outcome, is_ready)
    }

    /// List for a question that the kernel is about to be asked.
    pub(super) fn kernel(&mut self) -> &mut [PollFd] {
        self.asked = self.asked.saturating_add(1);
        &mut self.kernel
    }

    /// Takes the kernel's answers over; how many there are.
    pub(super) fn merge(&mut self) -> usize {
        let mut n = 0;
        for (i, (to, from)) in self.fds.iter_mut().zip(&mut self.kernel).enumerate() {
            if from.fd >= 0 {
                to.revents = from.revents & self.by.reports(to.events);
                if to.revents & libc::POLLNVAL != 0
                    && self.by == By::Select
                    && (self.asked > 1 || self.ours.iter().any(|&(ours, _)| ours == i))
                {
                    // Closed since the call began.
                    to.revents = to.events;
                }
                n += usize::from(to.revents != 0);
                if to.revents == 0 && from.revents != 0 {
                    from.fd = UNREPORTED;
                }
            } else if to.fd < 0 {
                to.revents = 0;
            }
        }
        n
    }
}
