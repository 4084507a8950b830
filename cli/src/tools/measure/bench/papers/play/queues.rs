//! Requests spread at random over many VIs, and short replies. Each end finds the VI with a message by a completion
//! queue, or by polling one VI after the other.
//!
//! As in the paper, an end that polls in turn skips VIs that cannot have a message. The requester knows the VIs on
//! which it waits for replies. The responder has no such knowledge.

use std::cell::RefCell;
use std::hint;

use via::{Completion, CompletionQueue, DescriptorAddress, Nic, Vi};

use super::Player;
use crate::measure::bench::papers::station::{Room, Slot, Station, check};
use crate::measure::bench::papers::work::{Metric, Strategy};

/// Number of receives posted to each VI: the largest number of requests that may meet on one VI.
const RECEIVES: usize = 8;
/// Number of requests in a round. No request is outstanding at the beginning and the end of a round.
const REQUESTS: usize = 256;
const REPLY_BYTES: usize = 4;
const CQ_ENTRIES: u32 = 4096;
/// Number of messages of each VI before the measurement. The first use of memory costs more than the messages, and many
/// VIs use much memory.
const WARM_UP: usize = 64;

/// All VIs of one point.
struct Many<N: Nic> {
    vis: Vec<N::Vi>,
    cq: Option<N::Cq>,
    /// Number of requests outstanding on each VI, and the VI to poll next.
    waiting: Vec<usize>,
    next: usize,
    /// State of the generator that chooses VIs.
    random: u32,
    /// Number of the VI during the warm-up, which uses all VIs in turn.
    turn: Option<usize>,
}

impl<N: Nic> Many<N> {
    /// Returns a pseudo-random VI by xorshift, the same sequence in every run.
    fn any(&mut self) -> usize {
        if let Some(turn) = &mut self.turn {
            *turn += 1;
            return *turn % self.vis.len();
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random as usize % self.vis.len()
    }

    /// Returns the next VI with a message, and the completed receive. With `knows`, polls only VIs with outstanding
    /// requests.
    fn find(&mut self, knows: bool) -> anyhow::Result<(usize, Completion)> {
        if let Some(cq) = &self.cq {
            let entry = loop {
                match cq.done() {
                    Some(entry) => break entry,
                    None => hint::spin_loop(),
                }
            };
            let i = entry.context as usize;
            let vi = &self.vis[i];
            return Ok((i, check(vi, vi.recv_done().completion())?));
        }
        loop {
            let i = self.next;
            self.next = if i + 1 == self.vis.len() { 0 } else { i + 1 };
            if knows && self.waiting[i] == 0 {
                continue;
            }
            let vi = &self.vis[i];
            if let Some(completion) = vi.recv_done().completion() {
                return Ok((i, check(vi, Some(completion))?));
            }
            hint::spin_loop();
        }
    }
}

impl Player<'_> {
    pub(super) fn queues<N: Nic>(
        &mut self,
        nic: N,
        strategy: Strategy,
        outstanding: usize,
        size: usize,
        counts: &[usize],
    ) -> anyhow::Result<()> {
        anyhow::ensure!((1..=RECEIVES).contains(&outstanding), "{outstanding} are too many");
        let most = counts.iter().copied().max().unwrap_or(1);
        let receives = most * RECEIVES;
        // Receives share a few buffers in turn: as many as are in use at the same time.
        let data = (RECEIVES + 1) * size.max(REPLY_BYTES).next_multiple_of(64);
        let station = self.station(nic, Room { short: receives + 1, long: 0, data })?;
        let out = Slot::Short(receives);
        for &count in counts {
            let many = self.many(&station, strategy, count, size)?;
            let bytes = if self.is_requester() { size } else { REPLY_BYTES };
            let out = station.prepare(out, &[station.data(0, bytes)])?;
            self.control.meet()?;
            let many = RefCell::new(many);
            let request = || requests(&station, &mut many.borrow_mut(), out, outstanding);
            let serve = || serve(&station, &mut many.borrow_mut(), out);
            self.rounds_once((count * WARM_UP).div_ceil(REQUESTS), request, serve)?;
            many.borrow_mut().turn = None;
            let ns = self.rounds(request, serve)?;
            if let Some(ns) = ns {
                let each = ns / REQUESTS as f64;
                self.reading(Metric::PerMessage, count, each / 1e3);
                self.reading(Metric::Throughput, count, size as f64 * 8e3 / each);
            }
            self.control.meet()?;
        }
        Ok(())
    }

    /// Makes `count` connected VIs with posted receives.
    fn many<N: Nic>(
        &mut self,
        station: &Station<N>,
        strategy: Strategy,
        count: usize,
        size: usize,
    ) -> anyhow::Result<Many<N>> {
        let entries = CQ_ENTRIES.min(station.nic.attributes().max_cq_entries);
        let cq = match strategy {
            Strategy::CompletionQueue => Some(station.nic.create_cq(entries, 0)?),
            Strategy::RoundRobin => None,
        };
        let stride = size.max(REPLY_BYTES).next_multiple_of(64);
        let bytes = if self.is_requester() { REPLY_BYTES } else { size };
        let mut vis = Vec::with_capacity(count);
        for i in 0..count {
            let vi = station.vi(cq.as_ref(), i as u64)?;
            for k in 0..RECEIVES {
                let slot = Slot::Short(i * RECEIVES + k);
                let data = station.data((1 + k) * stride, bytes);
                vi.post_recv(station.prepare(slot, &[data])?)?;
            }
            station.connect(&vi)?;
            vis.push(vi);
        }
        Ok(Many { vis, cq, waiting: vec![0; count], next: 0, random: 0x9e37_79b9, turn: Some(0) })
    }
}

/// Runs a round of the requester.
fn requests<N: Nic>(
    station: &Station<N>,
    many: &mut Many<N>,
    out: DescriptorAddress,
    outstanding: usize,
) -> anyhow::Result<()> {
    let (mut sent, mut done) = (0, 0);
    while done < REQUESTS {
        while sent < REQUESTS && sent - done < outstanding {
            let i = many.any();
            station.send(&many.vis[i], out)?;
            many.waiting[i] += 1;
            sent += 1;
        }
        let (i, received) = many.find(true)?;
        many.waiting[i] -= 1;
        done += 1;
        many.vis[i].post_recv(received.descriptor)?;
    }
    Ok(())
}

/// Runs a round of the responder.
fn serve<N: Nic>(
    station: &Station<N>,
    many: &mut Many<N>,
    out: DescriptorAddress,
) -> anyhow::Result<()> {
    for _ in 0..REQUESTS {
        let (i, received) = many.find(false)?;
        many.vis[i].post_recv(received.descriptor)?;
        station.send(&many.vis[i], out)?;
    }
    Ok(())
}
