//! What of the papers' table 4 connections do: chosen for the process, or for one of them.
//!
//! On a segment that both ends reach, messages are handled by whoever calls (SINGLE) and are copied
//! (COPY), whatever the configuration says: a handler thread and a registration would only add to
//! that. Window, threshold, chunk and combining are as configured. A window that does not fit the
//! ring with its acknowledgements is made smaller.

use crate::Errno;
use crate::conn::{Conn, Phase};
use crate::table;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sovia_proto::configuration::{CHUNK, Configuration};
use sovia_proto::flow::{DACKS, Parameters};
use via_shm::endpoint::{CREDIT_BATCH, MESSAGE_MAX};
use via_shm::ring::SLOTS;

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

/// What has been chosen, for a process or one connection.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Choice {
    /// Window, and threshold in the upper half; 0: nothing has been chosen.
    flow: AtomicU32,
    chunk: AtomicU32,
    below: AtomicU32,
    delay_ns: AtomicU64,
}

/// The process's.
static PROCESS: Choice = Choice::nothing();

impl Choice {
    const fn nothing() -> Choice {
        Choice {
            flow: AtomicU32::new(0),
            chunk: AtomicU32::new(0),
            below: AtomicU32::new(0),
            delay_ns: AtomicU64::new(0),
        }
    }

    /// Back to where nothing has been chosen.
    pub(crate) fn forget(&self) {
        self.flow.store(0, Ordering::Relaxed);
    }

    fn set(&self, configuration: &Configuration) {
        let Parameters { window, threshold } = fitting(configuration.flow);
        self.chunk.store(configuration.chunk.min(MESSAGE_MAX as u32), Ordering::Relaxed);
        let combine = configuration.combine;
        self.below.store(combine.map_or(0, |combine| combine.below), Ordering::Relaxed);
        let delay = combine.map_or(0, |combine| combine.delay.as_nanos() as u64);
        self.delay_ns.store(delay, Ordering::Relaxed);
        self.flow.store(u32::from(window) | u32::from(threshold) << 16, Ordering::Release);
    }

    fn get(&self) -> Option<(Parameters, Protocol)> {
        let flow = self.flow.load(Ordering::Acquire);
        let protocol = Protocol {
            chunk: self.chunk.load(Ordering::Relaxed),
            below: self.below.load(Ordering::Relaxed),
            delay_ns: self.delay_ns.load(Ordering::Relaxed),
        };
        let flow_of = Parameters { window: flow as u16, threshold: (flow >> 16) as u16 };
        (flow != 0).then_some((flow_of, protocol))
    }
}

/// Makes a configuration that of all connections to come.
pub fn choose(configuration: &Configuration) {
    PROCESS.set(configuration);
}

/// Makes a configuration that of the connection behind `fd`.
///
/// # Errors
/// `ENOTCONN` if that is none, or on TCP for good; `EISCONN` if it has its VI already.
pub fn choose_for(fd: i32, configuration: &Configuration) -> Result<(), Errno> {
    let at = table::conn(fd).ok_or(libc::ENOTCONN)?;
    let _guard = at.conn.lock();
    match at.conn.phase() {
        Phase::Candidate => at.conn.choice.set(configuration),
        Phase::Attached => return Err(libc::EISCONN),
        Phase::Plain | Phase::Free => return Err(libc::ENOTCONN),
    }
    Ok(())
}

/// What a connection is to do that is just given its VI.
pub(crate) fn of(conn: &Conn) -> (Parameters, Protocol) {
    let default = Protocol { chunk: CHUNK, below: 0, delay_ns: 0 };
    conn.choice.get().or_else(|| PROCESS.get()).unwrap_or((DACKS, default))
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
