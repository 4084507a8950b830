//! The ping-pong loop to and from uncached memory, like NetPIPE with -I, beside the loop that always uses the same
//! memory. Another variant has a receiver that reads the bytes.

use std::cell::{Cell, RefCell};
use std::fs;

use via::{Nic, Vi};

use super::Player;
use crate::measure::bench::link::Link;
use crate::measure::bench::papers::station::{Room, Slot, transfer_max};
use crate::measure::bench::papers::work::{Buffers, Metric};

/// Size of the buffers in bytes if the size of the last cache is unknown.
const UNKNOWN_CACHE_BYTES: usize = 64 << 20;
/// Size of the memory to send from, and to receive into: this many times the last cache, up to a maximum. A virtual
/// machine sees the size of its host's whole cache, but can use only a part.
const TIMES: usize = 2;
const MOST_BYTES: usize = 256 << 20;

/// Returns the size of the last cache that this machine reports, in bytes.
fn last_cache_bytes() -> usize {
    let of = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    };
    (0..8).filter_map(of).max().unwrap_or(UNKNOWN_CACHE_BYTES)
}

/// Returns the size of the memory to send from, and to receive into.
fn half_bytes() -> usize {
    (TIMES * last_cache_bytes()).min(MOST_BYTES)
}

/// Offsets of messages, one after the other.
struct Ring {
    at: Cell<usize>,
    len: usize,
    end: usize,
}

impl Ring {
    fn new(buffers: Buffers, len: usize, bytes: usize) -> Self {
        let places = if buffers == Buffers::Hot { 1 } else { (bytes / len).max(1) };
        Self { at: Cell::new(0), len, end: places * len }
    }

    /// Returns the offset of the next message.
    fn next(&self) -> usize {
        let at = self.at.get();
        self.at.set(if at + self.len >= self.end { 0 } else { at + self.len });
        at
    }
}

/// Reads all bytes.
fn read(bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add);
    std::hint::black_box(sum + rest.iter().map(|&byte| u64::from(byte)).sum::<u64>());
}

impl Player<'_> {
    /// Runs the loop over a VI. Each message gets a new descriptor for its place.
    pub(super) fn buffers<N: Nic>(
        &mut self,
        nic: N,
        buffers: Buffers,
        sizes: &[usize],
    ) -> anyhow::Result<()> {
        // A longer message would be sent as several messages, each with a receive of its own.
        let sizes: Vec<_> =
            sizes.iter().copied().filter(|len| *len <= transfer_max(&nic)).collect();
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let half = half_bytes().max(largest);
        let station = self.station(nic, Room { short: 3, long: 0, data: 2 * half })?;
        let vi = station.vi(None, 0)?;
        let (send, receives) = (Slot::Short(2), [Slot::Short(0), Slot::Short(1)]);
        // A receive is always posted before its message can arrive.
        station.prepare(receives[0], &[station.data(0, largest)])?;
        vi.post_recv(station.address(receives[0]))?;
        station.connect(&vi)?;
        let turn = Cell::new(0);
        for len in sizes {
            let (out, into) = (Ring::new(buffers, len, half), Ring::new(buffers, len, half));
            let place = Cell::new(0);
            self.control.meet()?;
            let send = || -> anyhow::Result<()> {
                let data = station.data(half + out.next(), len);
                station.send(&vi, station.prepare(send, &[data])?)
            };
            let receive = || -> anyhow::Result<()> {
                let came = place.replace(into.next());
                station.received(&vi)?;
                turn.set(1 - turn.get());
                // The next message may have the largest length.
                let next = place.get().min(half - largest);
                let slot = receives[turn.get()];
                vi.post_recv(station.prepare(slot, &[station.data(next, largest)])?)?;
                if buffers == Buffers::Read {
                    let start = station.bytes(came.min(half - largest), len)?;
                    // SAFETY: `bytes` has checked that the range is inside the data, and the data outlives the slice.
                    // The message has arrived, and the next one is received elsewhere.
                    read(unsafe { std::slice::from_raw_parts(start.as_ptr(), len) });
                }
                Ok(())
            };
            self.bounce(len, send, receive)?;
        }
        Ok(())
    }

    pub(super) fn buffers_over(
        &mut self,
        link: &mut dyn Link,
        buffers: Buffers,
        sizes: &[usize],
    ) -> anyhow::Result<()> {
        let link = RefCell::new(link);
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let half = half_bytes().max(largest);
        let (source, target) = (vec![1; half], RefCell::new(vec![1; half]));
        for &len in sizes {
            let (out, into) = (Ring::new(buffers, len, half), Ring::new(buffers, len, half));
            let send = || -> anyhow::Result<()> {
                let at = out.next();
                Ok(link.borrow_mut().send(&source[at..at + len])?)
            };
            let receive = || -> anyhow::Result<()> {
                let at = into.next();
                let message = &mut target.borrow_mut()[at..at + len];
                link.borrow_mut().receive_all(message)?;
                if buffers == Buffers::Read {
                    read(message);
                }
                Ok(())
            };
            self.bounce(len, send, receive)?;
        }
        Ok(())
    }

    /// Sends messages of `len` bytes there and back. The requester sends first.
    fn bounce(
        &mut self,
        len: usize,
        send: impl Fn() -> anyhow::Result<()>,
        receive: impl Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let request = || send().and_then(|()| receive());
        let serve = || receive().and_then(|()| send());
        if let Some(ns) = self.rounds(request, serve)? {
            self.reading(Metric::HalfTrip, len, ns / 2e3);
            self.reading(Metric::Throughput, len, len as f64 * 8e3 / (ns / 2.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_turns_within_their_memory() {
        let hot = Ring::new(Buffers::Hot, 64, 1024);
        assert_eq!([hot.next(), hot.next()], [0, 0]);
        let cold = Ring::new(Buffers::Cold, 300, 1000);
        assert_eq!([cold.next(), cold.next(), cold.next(), cold.next()], [0, 300, 600, 0]);
        let large = Ring::new(Buffers::Read, 4096, 1000);
        assert_eq!([large.next(), large.next()], [0, 0]);
        assert!(last_cache_bytes() >= 1 << 15);
    }
}
