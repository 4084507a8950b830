//! Congestion control: limits the bytes in flight and the rate of sending.
//!
//! [`Control::Bbr`] is for a shared network. Among published algorithms, BBR fits this crate's goals best:
//!
//! - BBR (draft-ietf-ccwg-bbr) models the path by its delivery rate and its shortest round trip. Random loss below 2 %
//!   (section 2.7, `LossThresh`) does not slow BBR down. CUBIC (RFC 9438) would reach about 1.2 MB/s at 1 % loss and 10
//!   ms. Where a queue overflows, this version is bound like CUBIC. So it neither starves a competing TCP nor is
//!   starved by it.
//! - Swift (SIGCOMM 2020) and TIMELY need time stamps from the NIC, and a target delay that fits the fabric.
//! - Copa (NSDI 2018) is simpler, but loses to a TCP that fills buffers unless Copa detects that TCP. Copa's detection
//!   assumes that the queue becomes empty periodically.
//!
//! [`Control::Fixed`] is no control: only the window limits the sender. `Fixed` suits a direct link and shared memory,
//! keeps no state and computes nothing.

mod bbr;
mod filters;
#[cfg(test)]
mod kernel;
mod pacer;
mod rate;

use bbr::Bbr;
#[cfg(test)]
pub(super) use kernel::KernelCubic;
pub(super) use rate::{Acked, Sample, Snapshot};

use crate::Time;
use core::fmt;
use core::str::FromStr;

/// Returns `value * times / of`, or `u64::MAX` on overflow. Uses 64-bit arithmetic where possible, because the function
/// runs for each frame.
#[inline]
fn proportion(value: u64, times: u64, of: u64) -> u64 {
    match value.checked_mul(times) {
        Some(product) => product / of,
        None => u64::try_from(u128::from(value) * u128::from(times) / u128::from(of))
            .unwrap_or(u64::MAX),
    }
}

/// How a stream limits its sending, in addition to its window.
///
/// Options write it `fixed` or `bbr`.
///
/// ```
/// # use sovia_link::Control;
/// assert_eq!("bbr".parse(), Ok(Control::Bbr));
/// assert_eq!(Control::Fixed.to_string(), "fixed");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// No limit: as fast as the port takes frames. For a link that no other traffic uses.
    #[default]
    Fixed,
    /// BBR with pacing. For a shared network.
    Bbr,
}

/// The error for a text that names no control.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a congestion control: expected bbr (for a shared network) or fixed (for a direct link)"
)]
pub struct BadControl(String);

impl FromStr for Control {
    type Err = BadControl;

    fn from_str(text: &str) -> Result<Control, BadControl> {
        match text {
            "fixed" => Ok(Control::Fixed),
            "bbr" => Ok(Control::Bbr),
            _ => Err(BadControl(text.to_owned())),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Control::Fixed => "fixed",
            Control::Bbr => "bbr",
        })
    }
}

/// State of a stream's congestion control.
#[derive(Debug)]
pub(super) enum Controller {
    Fixed,
    Bbr(Box<Bbr>),
    /// A competing stream.
    #[cfg(test)]
    Kernel(KernelCubic),
}

impl Controller {
    /// Creates the controller of a stream with frames of up to `frame` bytes.
    pub(super) fn new(control: Control, frame: u32) -> Controller {
        match control {
            Control::Fixed => Controller::Fixed,
            Control::Bbr => Controller::Bbr(Box::new(Bbr::new(frame))),
        }
    }

    /// Number of heap bytes that the controller uses.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Controller::Fixed => 0,
            Controller::Bbr(_) => size_of::<Bbr>(),
            #[cfg(test)]
            Controller::Kernel(_) => 0,
        }
    }

    /// Returns true if no more may be sent with `in_flight` bytes in flight.
    pub(super) fn is_full(&self, in_flight: u64) -> bool {
        match self {
            Controller::Fixed => false,
            Controller::Bbr(bbr) => in_flight >= bbr.window(),
            #[cfg(test)]
            Controller::Kernel(kernel) => in_flight >= kernel.window(),
        }
    }

    /// Returns when the next frame may be sent.
    pub(super) fn next_at(&self) -> Time {
        match self {
            Controller::Fixed => Time::ZERO,
            Controller::Bbr(bbr) => bbr.next_at(),
            #[cfg(test)]
            Controller::Kernel(_) => Time::ZERO,
        }
    }

    /// Notes that a frame is sent, with `in_flight` bytes in flight before it.
    pub(super) fn sent(&mut self, bytes: u32, in_flight: u64, now: Time) -> Snapshot {
        match self {
            Controller::Fixed => Snapshot::default(),
            Controller::Bbr(bbr) => bbr.sent(bytes.into(), in_flight, now),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.sent(now),
        }
    }

    /// Notes that no data waits to be sent. Rate measurements do not show the path's limit until `in_flight` bytes have
    /// arrived.
    pub(super) fn starved(&mut self, in_flight: u64) {
        if let Controller::Bbr(bbr) = self {
            bbr.starved(in_flight);
        }
    }

    /// Notes that a transmission is declared lost.
    pub(super) fn lost(&mut self, snapshot: &Snapshot, bytes: u32) {
        match self {
            Controller::Fixed => {}
            Controller::Bbr(bbr) => bbr.lost(snapshot, bytes.into()),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.lost(snapshot),
        }
    }

    /// Processes all changes by one acknowledgement.
    pub(super) fn acknowledged(&mut self, acked: &Acked) {
        match self {
            Controller::Fixed => {}
            Controller::Bbr(bbr) => bbr.acknowledged(acked),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.acknowledged(acked),
        }
    }

    /// Notes that the oldest item was sent again because no answer came.
    pub(super) fn timed_out(&mut self) {
        if let Controller::Bbr(bbr) = self {
            bbr.timed_out();
        }
    }
}
