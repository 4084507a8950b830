//! The error of a connection that the program is still to hear of, once.

use super::{Conn, flag};
use crate::Errno;
use core::sync::atomic::Ordering;

impl Conn {
    /// Notes an error that is to be reported to the program once, unless there is one.
    pub(crate) fn keep_error(&self, error: Errno) {
        self.withhold_error(error);
        self.set(flag::ERROR);
    }

    /// Notes an error that is to be reported to the program once it is known to be the last thing that comes.
    pub(crate) fn withhold_error(&self, error: Errno) {
        let _ = self.error.compare_exchange(0, error as u32, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether there is an error that is not to be reported yet.
    pub(crate) fn withholds_error(&self) -> bool {
        !self.has(flag::ERROR) && self.error().is_some()
    }

    /// An error that has been withheld is to be reported from now on.
    pub(crate) fn tell_withheld_error(&self) {
        if self.error().is_some() {
            self.set(flag::ERROR);
        }
    }

    /// The error that is to be reported to the program once, if there is one.
    pub(crate) fn error(&self) -> Option<Errno> {
        Some(self.error.load(Ordering::Acquire) as Errno).filter(|&error| error != 0)
    }

    /// Takes the error that is to be reported to the program once.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        if !self.has(flag::ERROR) {
            return None;
        }
        self.clear(flag::ERROR);
        match self.error.swap(0, Ordering::AcqRel) {
            0 => None,
            error => Some(error as Errno),
        }
    }
}
