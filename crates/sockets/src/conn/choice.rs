//! Settings of the protocol, as the program or user chose them and as a connection uses them.

use super::body::{PACKET_MAX, RECEIVES};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_proto::configuration::{
    Configuration, Handling, SOCKET_RECEIVES, SOCKET_WINDOW_MAX, Transfer,
};
use sovia_proto::flow::{DACKS, Parameters};

/// Protocol settings of a connection that has a VI.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Protocol {
    /// Length of the longest packet, in bytes.
    pub chunk: u32,
    /// Length of the longest message that a send puts into the ring in one step, in bytes. 0 if every send takes further
    /// steps, for its `transfer`.
    pub single: u32,
    /// Messages shorter than this length in bytes may be combined; 0 if no message may be combined.
    pub below: u32,
    /// Longest time by which the peer's notification of combined bytes is delayed, in nanoseconds.
    pub delay_ns: u64,
    /// The thread that takes messages off the ring: the program's or a handler thread.
    pub handling: Handling,
    /// The way in which a packet's bytes reach the VI: by copy or from registered memory.
    pub transfer: Transfer,
}

/// Largest window that this version uses, in packets. A larger value from a peer counts as this value.
pub(crate) const WINDOW_MAX: u16 = SOCKET_WINDOW_MAX;

const _: () = {
    // Even with a full window, the ring has room for a FIN, a FINACK and a change of path. This is true even while
    // the receiver's last batch of free ring entries is unpublished.
    assert!(fits(DACKS));
    // A text of settings is refused if its window does not fit.
    assert!(SOCKET_RECEIVES as u32 == RECEIVES);
};

const fn fits(flow: Parameters) -> bool {
    flow.receives() as u32 <= RECEIVES
}

/// Returns `wanted`, with the window and the threshold reduced until the ring has room for a full window of
/// packets.
const fn fitting(wanted: Parameters) -> Parameters {
    let mut flow = wanted;
    if flow.window > WINDOW_MAX {
        flow.window = WINDOW_MAX;
    }
    while !fits(flow) {
        flow.window -= 1;
    }
    if flow.threshold > flow.window {
        flow.threshold = flow.window;
    }
    flow
}

/// Protocol settings that a user or program has chosen for a process or for one connection.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Choice {
    /// The window, and in the upper half the threshold for acknowledgements; 0 if nothing has been chosen.
    flow: AtomicU32,
    chunk: AtomicU32,
    below: AtomicU32,
    /// Longest message that [`Transfer::Hybrid`] copies, in bytes.
    copied: AtomicU32,
    delay_ns: AtomicU64,
    /// A number for the [`Handling`], and in the upper half a number for the [`Transfer`].
    ways: AtomicU32,
}

impl Choice {
    pub(crate) const fn nothing() -> Choice {
        Choice {
            flow: AtomicU32::new(0),
            chunk: AtomicU32::new(0),
            below: AtomicU32::new(0),
            copied: AtomicU32::new(0),
            delay_ns: AtomicU64::new(0),
            ways: AtomicU32::new(0),
        }
    }

    /// Removes the chosen settings.
    pub(crate) fn forget(&self) {
        self.flow.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, configuration: &Configuration) {
        let (Parameters { window, threshold }, protocol) = translated(configuration);
        self.chunk.store(protocol.chunk, Ordering::Relaxed);
        self.below.store(protocol.below, Ordering::Relaxed);
        self.delay_ns.store(protocol.delay_ns, Ordering::Relaxed);
        let handling = match protocol.handling {
            Handling::Single => 0,
            Handling::Handler => 1,
            Handling::Notify => 2,
        };
        let transfer = match protocol.transfer {
            Transfer::Auto => 0,
            Transfer::Reg => 1,
            Transfer::Copy => 2,
            Transfer::Hybrid { threshold } => {
                self.copied.store(threshold, Ordering::Relaxed);
                3
            }
        };
        self.ways.store(handling | transfer << 16, Ordering::Relaxed);
        self.flow.store(u32::from(window) | u32::from(threshold) << 16, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<(Parameters, Protocol)> {
        let flow = self.flow.load(Ordering::Acquire);
        let ways = self.ways.load(Ordering::Relaxed);
        let chunk = self.chunk.load(Ordering::Relaxed);
        let transfer = match ways >> 16 {
            0 => Transfer::Auto,
            1 => Transfer::Reg,
            2 => Transfer::Copy,
            _ => Transfer::Hybrid { threshold: self.copied.load(Ordering::Relaxed) },
        };
        let protocol = Protocol {
            chunk,
            single: single(chunk, transfer),
            below: self.below.load(Ordering::Relaxed),
            delay_ns: self.delay_ns.load(Ordering::Relaxed),
            handling: match ways & 0xffff {
                0 => Handling::Single,
                1 => Handling::Handler,
                _ => Handling::Notify,
            },
            transfer,
        };
        let flow_of = Parameters { window: flow as u16, threshold: (flow >> 16) as u16 };
        (flow != 0).then_some((flow_of, protocol))
    }
}

/// Returns [`Protocol::single`].
fn single(chunk: u32, transfer: Transfer) -> u32 {
    if transfer == Transfer::Auto { chunk } else { 0 }
}

/// Converts `configuration` to the settings of a connection on a segment, within the segment's limits.
pub(crate) fn translated(configuration: &Configuration) -> (Parameters, Protocol) {
    let combine = configuration.combine;
    let chunk = configuration.chunk.min(PACKET_MAX as u32);
    let protocol = Protocol {
        chunk,
        single: single(chunk, configuration.transfer),
        below: combine.map_or(0, |combine| combine.below),
        delay_ns: combine.map_or(0, |combine| combine.delay.as_nanos() as u64),
        handling: configuration.handling,
        transfer: configuration.transfer,
    };
    (fitting(configuration.flow), protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_is_what_is_done() {
        for text in
            ["auto", "SOVIA_NOTIFY", "handler,copy,w=4,t=2", "hybrid=100,combine=64,delay=1ms"]
        {
            let choice = Choice::nothing();
            assert!(choice.get().is_none());
            let configuration = Configuration::of_socket(text).unwrap();
            choice.set(&configuration);
            let (flow, protocol) = choice.get().unwrap();
            assert_eq!(flow, configuration.flow, "{text}");
            assert_eq!(protocol.handling, configuration.handling, "{text}");
            assert_eq!(protocol.transfer, configuration.transfer, "{text}");
            let below = configuration.combine.map_or(0, |combine| combine.below);
            assert_eq!((protocol.chunk, protocol.below), (configuration.chunk, below), "{text}");
        }
    }

    #[test]
    fn windows_fit_the_ring_with_their_acknowledgements() {
        let of = |window, threshold| fitting(Parameters { window, threshold });
        assert_eq!(of(32, 16), DACKS);
        assert_eq!(of(1, 1), Parameters { window: 1, threshold: 1 });
        assert_eq!(of(256, 256), Parameters { window: 32, threshold: 32 });
        for (window, threshold) in [(32, 1), (256, 1), (256, 3), (200, 100)] {
            let flow = of(window, threshold);
            assert!(fits(flow) && flow.window >= 16, "{flow:?}");
            assert!(flow.threshold <= threshold && flow.threshold <= flow.window);
        }
    }
}
