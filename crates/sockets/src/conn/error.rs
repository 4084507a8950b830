//! Stores an error that a connection reports to the program once.

use super::{Conn, flag};
use crate::Errno;
use core::sync::atomic::Ordering;

impl Conn {
    /// Stores an error that the program's next call reports, once. Does nothing if an earlier error is stored.
    pub(crate) fn keep_error(&self, error: Errno) {
        self.withhold_error(error);
        self.set(flag::ERROR);
    }

    /// Stores an error that must not be reported yet, because more bytes may arrive. Does nothing if an earlier
    /// error is stored.
    pub(crate) fn withhold_error(&self, error: Errno) {
        let _ = self.error.compare_exchange(0, error as u32, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns true if an error is stored that must not be reported yet.
    pub(crate) fn withholds_error(&self) -> bool {
        !self.has(flag::ERROR) && self.error().is_some()
    }

    /// Allows the stored error to be reported, if an error is stored.
    pub(crate) fn report_withheld_error(&self) {
        if self.error().is_some() {
            self.set(flag::ERROR);
        }
    }

    /// Returns the stored error, if there is one. Does not remove the error.
    pub(crate) fn error(&self) -> Option<Errno> {
        Some(self.error.load(Ordering::Acquire) as Errno).filter(|&error| error != 0)
    }

    /// Returns and removes the stored error. Returns `None` if no error may be reported.
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
