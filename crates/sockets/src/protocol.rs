//! What of the papers' table 4 this process's connections do.
//!
//! On a segment that both ends reach, messages are handled by whoever calls (SINGLE) and are copied
//! (COPY), whatever the configuration says: a handler thread and a registration would only add to
//! that. Window, threshold, chunk and combining are as configured. A window that does not fit the
//! ring with its acknowledgements is made smaller.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_proto::configuration::Configuration;
use sovia_proto::flow::{DACKS, Parameters};
use via_shm::endpoint::{CREDIT_BATCH, MESSAGE_MAX};
use via_shm::ring::SLOTS;

/// Window, and threshold in the upper half.
static FLOW: AtomicU32 = AtomicU32::new(DACKS.window as u32 | (DACKS.threshold as u32) << 16);
static CHUNK: AtomicU32 = AtomicU32::new(sovia_proto::configuration::CHUNK);
/// Messages below so many bytes are combined; 0: none are.
static BELOW: AtomicU32 = AtomicU32::new(0);
static DELAY_NS: AtomicU64 = AtomicU64::new(0);

/// What one connection does, from its attachment on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Protocol {
    /// Bytes of the longest packet.
    pub chunk: u32,
    /// Messages below so many bytes may be combined; 0: none may.
    pub below: u32,
    /// Nanoseconds that combined bytes wait at most.
    pub delay_ns: u64,
}

/// The largest window that an end of this version has. What a peer says beyond is not believed.
pub(crate) const WINDOW_MAX: u16 = DACKS.window;

const _: () = {
    // A FIN, a FINACK and a switch of path always find a posted receive, even while the peer's last
    // batch of them is still unpublished.
    assert!(fits(DACKS));
};

const fn fits(flow: Parameters) -> bool {
    flow.receives() as u32 + CREDIT_BATCH <= SLOTS
}

/// The nearest to what is wanted that the ring has room for.
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

/// Makes a configuration that of all connections to come.
pub fn choose(configuration: &Configuration) {
    let Parameters { window, threshold } = fitting(configuration.flow);
    FLOW.store(u32::from(window) | u32::from(threshold) << 16, Ordering::Relaxed);
    CHUNK.store(configuration.chunk.min(MESSAGE_MAX as u32), Ordering::Relaxed);
    let combine = configuration.combine;
    BELOW.store(combine.map_or(0, |combine| combine.below), Ordering::Relaxed);
    let delay = combine.map_or(0, |combine| combine.delay.as_nanos() as u64);
    DELAY_NS.store(delay, Ordering::Relaxed);
}

/// Window and threshold.
pub(crate) fn flow() -> Parameters {
    let flow = FLOW.load(Ordering::Relaxed);
    Parameters { window: flow as u16, threshold: (flow >> 16) as u16 }
}

/// The rest.
pub(crate) fn protocol() -> Protocol {
    Protocol {
        chunk: CHUNK.load(Ordering::Relaxed),
        below: BELOW.load(Ordering::Relaxed),
        delay_ns: DELAY_NS.load(Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
