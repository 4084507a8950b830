//! Splits the descriptors of one call into accelerated connections and descriptors that the kernel serves.

use super::{PollCall, attached};
use crate::table::{self, Ref};
use crate::{Outcome, epoll_sets, errno};
use smallvec::SmallVec;
use sovia_sys::poll::{self, PollFd};

/// Number of accelerated connections that need no heap memory in a list. Small, because the program may have little
/// stack.
pub(super) const FEW_OURS: usize = 3;
const FEW: usize = 8;

/// Replaces a descriptor in the kernel's list if Sovia serves the connection.
const OURS: i32 = -1;
/// Replaces a descriptor in the kernel's list after the kernel has reported an event that the call does not report.
/// If the descriptor stayed, the kernel would report the event again at once.
const UNREPORTED: i32 = -2;

/// The program's list of descriptors, and the two lists made from it.
pub(super) struct Lists<'p> {
    fds: &'p mut [PollFd],
    by: PollCall,
    /// Number of times that the call has asked the kernel. Also counts a wait that did not ask the kernel.
    asked: u32,
    /// Accelerated connections, with their positions in the program's list.
    ours: SmallVec<[(usize, Ref); FEW_OURS]>,
    /// The list for the kernel, without the accelerated connections.
    kernel: SmallVec<[PollFd; FEW]>,
}

impl<'p> Lists<'p> {
    pub(super) fn new(fds: &'p mut [PollFd], by: PollCall, has_waited: bool) -> Lists<'p> {
        let ours: SmallVec<[_; FEW_OURS]> =
            fds.iter().enumerate().filter_map(|(i, p)| Some((i, attached(p.fd)?))).collect();
        // Clear `revents`, because the program may not have cleared the results of its last call.
        let mut kernel: SmallVec<[_; FEW]> =
            fds.iter().map(|p| PollFd { revents: 0, ..*p }).collect();
        for &(i, _) in &ours {
            kernel[i].fd = OURS;
        }
        Lists { fds, by, asked: u32::from(has_waited), ours, kernel }
    }

    /// Returns the connections that were accelerated at the begin of the call. Some may have left their VIs
    /// meanwhile.
    pub(super) fn ours(&self) -> impl ExactSizeIterator<Item = Ref> + '_ {
        self.ours.iter().map(|&(_, at)| at)
    }

    /// Moves connections to the kernel's list that are back on TCP or at a relay, or whose descriptors the program
    /// has closed. Each later check uses the file that the descriptor number means at that time.
    fn settle(&mut self) {
        for &(i, at) in &self.ours {
            crate::fallback::settle(at);
            if self.has_left(i, at) {
                self.kernel[i].fd = self.fds[i].fd;
            }
        }
    }

    /// Returns true if Sovia serves all of the descriptors.
    pub(super) fn are_all_ours(&self) -> bool {
        self.kernel.iter().all(|p| p.fd < 0)
    }

    /// Returns true if a connection has left its VI since the last [`look`](Self::look). Then the kernel must be
    /// asked.
    pub(super) fn any_has_left(&self) -> bool {
        self.ours.iter().any(|&(i, at)| self.has_left(i, at))
    }

    fn has_left(&self, i: usize, at: Ref) -> bool {
        self.kernel[i].fd == OURS && (!at.is_attached_here() || !table::refers(self.fds[i].fd, at))
    }

    /// Checks the accelerated connections and sets their `revents`. Returns the number of connections with events.
    pub(super) fn look(&mut self) -> usize {
        self.settle();
        let mut n = 0;
        for &(i, at) in self.ours.iter().filter(|&&(i, _)| self.kernel[i].fd == OURS) {
            let p = &mut self.fds[i];
            let interest = p.events as u16 as u32;
            let mask = epoll_sets::readiness(at, p.fd, interest);
            p.revents = mask as u16 as i16 & self.by.reports(p.events);
            n += usize::from(p.revents != 0);
        }
        n
    }

    /// Asks the kernel for events of its descriptors, without waiting.
    pub(super) fn ask_kernel(&mut self, mask: Option<&libc::sigset_t>) -> Outcome {
        poll::ppoll(self.kernel(), Some(0), mask).map_err(errno)
    }

    /// Like [`Self::ask_kernel`], but keeps the thread's own signal mask, so that the program's mask lets no signal
    /// in. A signal that comes nevertheless is ignored: EINTR means that no descriptor was ready.
    pub(super) fn ask_kernel_under_own_mask(&mut self) -> Outcome {
        match self.ask_kernel(None) {
            Err(libc::EINTR) => Ok(0),
            outcome => outcome,
        }
    }

    /// Returns the result of the call after [`look`](Self::look) has found `n` ready connections. Also asks the
    /// kernel for ready descriptors.
    pub(super) fn report(&mut self, n: usize) -> Outcome {
        if !self.are_all_ours() {
            self.ask_kernel_under_own_mask()?;
        }
        Ok(n + self.merge())
    }

    /// Asks the kernel by `ask`, with `one_more` in the list. `one_more` replaces an unused entry, because the
    /// kernel might refuse a list longer than the program's. Returns the kernel's answer, and true if `one_more` is
    /// ready.
    pub(super) fn ask_kernel_with(
        &mut self,
        one_more: PollFd,
        ask: impl FnOnce(&mut [PollFd]) -> Outcome,
    ) -> (Outcome, bool) {
        // Without an unused entry, all connections have left their VIs. Then no peer rings, so `one_more` is not
        // needed.
        let place = self.kernel.iter().position(|p| p.fd < 0);
        let instead = place.map(|i| (i, core::mem::replace(&mut self.kernel[i], one_more)));
        let outcome = ask(self.kernel());
        let is_ready = instead
            .is_some_and(|(i, was)| core::mem::replace(&mut self.kernel[i], was).revents != 0);
        (outcome, is_ready)
    }

    /// Returns the kernel's list, and counts a question to the kernel.
    pub(super) fn kernel(&mut self) -> &mut [PollFd] {
        self.asked = self.asked.saturating_add(1);
        &mut self.kernel
    }

    /// Copies the kernel's results to the program's list. Returns the number of descriptors with events.
    pub(super) fn merge(&mut self) -> usize {
        let mut n = 0;
        for (i, (to, from)) in self.fds.iter_mut().zip(&mut self.kernel).enumerate() {
            if from.fd >= 0 {
                to.revents = from.revents & self.by.reports(to.events);
                if to.revents & libc::POLLNVAL != 0
                    && self.by == PollCall::Select
                    && (self.asked > 1 || self.ours.iter().any(|&(ours, _)| ours == i))
                {
                    // Report a descriptor that was closed after the call began as ready.
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
