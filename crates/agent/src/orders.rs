//! What an agent's owner asks of it, by signals.

use crate::Error;
use sovia_sys::signals::Signals;
use std::os::fd::RawFd;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// To end, in order: `SIGTERM` or `SIGINT`.
    End,
    /// To tell what has become of frames: `SIGUSR1`.
    Tell,
}

/// The orders that come to this process.
#[derive(Debug)]
pub struct Orders(Signals);

impl Orders {
    /// From now on these signals are orders. To be called while the process has one thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take() -> Result<Orders, Error> {
        Signals::take(&[libc::SIGTERM, libc::SIGINT, libc::SIGUSR1])
            .map(Orders)
            .map_err(Error::Kernel)
    }

    /// The descriptor, which is readable while there is an order.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// The next one.
    pub(crate) fn next(&self) -> Option<Order> {
        self.0.next().map(|signal| if signal == libc::SIGUSR1 { Order::Tell } else { Order::End })
    }
}
