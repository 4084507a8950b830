//! Orders from the agent's owner, by signals.

use crate::Error;
use sovia_sys::signals::Signals;
use std::os::fd::RawFd;

/// An order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// End in an orderly way: `SIGTERM` or `SIGINT`.
    End,
    /// Report the frame counters: `SIGUSR1`.
    Tell,
}

/// The orders to this process.
#[derive(Debug)]
pub struct Orders(Signals);

impl Orders {
    /// Turns these signals into orders from now on. Call this while the process has one thread.
    ///
    /// # Errors
    /// The kernel refuses to redirect the signals.
    pub fn take() -> Result<Orders, Error> {
        Signals::take(&[libc::SIGTERM, libc::SIGINT, libc::SIGUSR1])
            .map(Orders)
            .map_err(Error::Kernel)
    }

    /// Returns a descriptor that is readable while an order waits.
    pub(crate) fn raw(&self) -> RawFd {
        self.0.raw()
    }

    /// Returns the next order.
    pub(crate) fn next(&self) -> Option<Order> {
        self.0.next().map(|signal| if signal == libc::SIGUSR1 { Order::Tell } else { Order::End })
    }
}
