//! How much may be on its way, and how fast: congestion control.
//!
//! [`Control::Bbr`] is the choice for a network that is shared. Of what is published it fits the goals of this crate
//! best:
//!
//! - BBR (draft-ietf-ccwg-bbr) models the path by the rate at which it delivers and its shortest round trip. Random
//!   loss below 2 % (section 2.7, `LossThresh`) does not slow it down, where CUBIC (RFC 9438) at 1 % and 10 ms would come to
//!   some 1.2 MB/s. Where a queue overflows it is bound as CUBIC is, so that it neither starves a competing TCP nor is
//!   starved by it.
//! - Swift (SIGCOMM 2020) and TIMELY need time stamps of the NIC's and a target delay that fits the fabric.
//! - Copa (NSDI 2018) is simpler, but loses to buffer-filling TCP unless it finds out that there is one, and its way of
//!   doing that takes periodic emptying of the queue for granted.
//!
//! [`Control::Fixed`] is no control: the window is all. It is right for a direct link and for shared memory, and keeps no
//! state and computes nothing.

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

/// `value * times / of`, or the most that there is. By the arithmetic of 64 bits wherever that does: it is needed for each
/// frame.
#[inline]
fn proportion(value: u64, times: u64, of: u64) -> u64 {
    match value.checked_mul(times) {
        Some(product) => product / of,
        None => u64::try_from(u128::from(value) * u128::from(times) / u128::from(of))
            .unwrap_or(u64::MAX),
    }
}

/// How a stream limits what it sends, beside its window.
///
/// As text, for options: `fixed`, `bbr`.
///
/// ```
/// # use sovia_link::Control;
/// assert_eq!("bbr".parse(), Ok(Control::Bbr));
/// assert_eq!(Control::Fixed.to_string(), "fixed");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Control {
    /// Not at all: as fast as the port takes frames. For a link that no one else uses.
    #[default]
    Fixed,
    /// By BBR, and paced: for a network that is shared.
    Bbr,
}

/// The text names no control.
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

/// A stream's state of it.
#[derive(Debug)]
pub(super) enum Controller {
    Fixed,
    Bbr(Box<Bbr>),
    /// A competitor.
    #[cfg(test)]
    Kernel(KernelCubic),
}

impl Controller {
    /// That of a stream whose frames have up to `frame` bytes.
    pub(super) fn new(control: Control, frame: u32) -> Controller {
        match control {
            Control::Fixed => Controller::Fixed,
            Control::Bbr => Controller::Bbr(Box::new(Bbr::new(frame))),
        }
    }

    /// Bytes that it keeps on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Controller::Fixed => 0,
            Controller::Bbr(_) => size_of::<Bbr>(),
            #[cfg(test)]
            Controller::Kernel(_) => 0,
        }
    }

    /// Whether so much on its way is too much to send any more.
    pub(super) fn is_full(&self, in_flight: u64) -> bool {
        match self {
            Controller::Fixed => false,
            Controller::Bbr(bbr) => in_flight >= bbr.window(),
            #[cfg(test)]
            Controller::Kernel(kernel) => in_flight >= kernel.window(),
        }
    }

    /// When the next frame may be sent.
    pub(super) fn next_at(&self) -> Time {
        match self {
            Controller::Fixed => Time::ZERO,
            Controller::Bbr(bbr) => bbr.next_at(),
            #[cfg(test)]
            Controller::Kernel(_) => Time::ZERO,
        }
    }

    /// A frame is sent, with `in_flight` bytes on their way before it.
    pub(super) fn sent(&mut self, bytes: u32, in_flight: u64, now: Time) -> Snapshot {
        match self {
            Controller::Fixed => Snapshot::default(),
            Controller::Bbr(bbr) => bbr.sent(bytes.into(), in_flight, now),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.sent(now),
        }
    }

    /// There is nothing to send: what is delivered says nothing about the path from now on, until `in_flight` bytes
    /// have arrived.
    pub(super) fn starved(&mut self, in_flight: u64) {
        if let Controller::Bbr(bbr) = self {
            bbr.starved(in_flight);
        }
    }

    /// A sending is taken for lost.
    pub(super) fn lost(&mut self, snapshot: &Snapshot, bytes: u32) {
        match self {
            Controller::Fixed => {}
            Controller::Bbr(bbr) => bbr.lost(snapshot, bytes.into()),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.lost(snapshot),
        }
    }

    /// Everything that an acknowledgement has changed.
    pub(super) fn acknowledged(&mut self, acked: &Acked) {
        match self {
            Controller::Fixed => {}
            Controller::Bbr(bbr) => bbr.acknowledged(acked),
            #[cfg(test)]
            Controller::Kernel(kernel) => kernel.acknowledged(acked),
        }
    }

    /// Nothing has been heard for so long that the oldest item was sent again.
    pub(super) fn timed_out(&mut self) {
        if let Controller::Bbr(bbr) = self {
            bbr.timed_out();
        }
    }
}
