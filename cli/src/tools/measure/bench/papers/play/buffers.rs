//! The ping-pong loop from and into memory that no cache holds, as NetPIPE has it with -I, beside the loop that uses the
//! same memory again and again; and with a receiver that reads what came.

use std::cell::{Cell, RefCell};
use std::fs;

use via::{Nic, Vi};

use super::Player;
use crate::measure::bench::link::Link;
use crate::measure::bench::papers::station::{Room, Slot, transfer_max};
use crate::measure::bench::papers::work::{Buffers, Metric};

/// Bytes that buffers have where the size of the last cache is not known.
const UNKNOWN_CACHE_BYTES: usize = 64 << 20;
/// Of what is sent, and of what is received: twice the last cache, and at most so much. A virtual machine is told of the whole cache
/// of its host, of which it has a part.
const TIMES: usize = 2;
const MOST_BYTES: usize = 256 << 20;

/// Bytes of the last cache that this machine says it has.
fn last_cache_bytes() -> usize {
    let of = |index: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
    };
    (0..8).filter_map(of).max().unwrap_or(UNKNOWN_CACHE_BYTES)
}

/// Bytes of what is sent, and of what is received.
fn half_bytes() -> usize {
    (TIMES * last_cache_bytes()).min(MOST_BYTES)
}

/// Places of messages, one after the other.
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

    /// Where the next message lies.
    fn next(&self) -> usize {
        let at = self.at.get();
        self.at.set(if at + self.len >= self.end { 0 } else { at + self.len });
        at
    }
}

/// Reads all of it.
fn read(bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().map(|word| u64::from_ne_bytes(*word)).fold(0, u64::wrapping_add);
    std::hint::black_box(sum + rest.iter().map(|&byte| u64::from(byte)).sum::<u64>());
}

impl Player<'_> {
    /// Over a VI: each message is described anew, where it lies.
    pub(super) fn buffers<N: Nic>(
        &mut self,
        nic: N,
        buffers: Buffers,
        sizes: &[usize],
    ) -> anyhow::Result<()> {
        // Longer ones would be several messages, each with a receive of its own.
        let sizes: Vec<_> =
            sizes.iter().copied().filter(|len| *len <= transfer_max(&nic)).collect();
        let largest = sizes.iter().copied().max().unwrap_or(1);
        let half = half_bytes().max(largest);
        let station = self.station(nic, Room { short: 3, long: 0, data: 2 * half })?;
        let vi = station.vi(None, 0)?;
        let (send, receives) = (Slot::Short(2), [Slot::Short(0), Slot::Short(1)]);
        // One receive is always posted before the message for it can come.
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
                // The next message is as long as the longest at most.
                let next = place.get().min(half - largest);
                let slot = receives[turn.get()];
                vi.post_recv(station.prepare(slot, &[station.data(next, largest)])?)?;
                if buffers == Buffers::Read {
                    let start = station.bytes(came.min(half - largest), len)?;
                    // SAFETY: `bytes` has seen that they lie within the data, which lives on; the message is there, and
                    // the next one is received elsewhere.
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

    /// Messages of that length there and back: the requester sends first.
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
