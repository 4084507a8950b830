//! Messages spread over the receiver's memory: the strided copy of doubles, and blocks of growing size in 32 segments.

use std::hint::black_box;
use std::ptr::NonNull;

use via::{DataSegment, Nic};

use super::Player;
use super::oneway::{SHORT, Stream, throughput};
use crate::measure::bench::papers::station::{Room, SEGMENTS_MAX, Slot, Station};
use crate::measure::bench::papers::work::{Metric, Spread, Way};

/// Size of a double in bytes.
const DOUBLE: usize = size_of::<f64>();
/// Number of doubles in a strided block: about 8 KB as in the paper, four full descriptors.
const DOUBLES: usize = 4 * SEGMENTS_MAX;
const BLOCK_BYTES: usize = DOUBLES * DOUBLE;
/// Number of blocks with posted receives.
const BLOCKS: usize = 16;
/// Number of segments in a scattered message, as in the paper.
const SEGMENTS: usize = 32;
/// Number of scattered messages with posted receives.
const MESSAGES: usize = 64;
/// Distance of blocks, as a multiple of their length. So every other place stays unused.
const APART: usize = 2;

/// Doubles of a row, to store `stride` apart.
struct Strided {
    from: NonNull<u8>,
    to: NonNull<u8>,
    stride: usize,
}

impl Strided {
    /// Returns the places in the station's data: the row at the beginning, and the target after it.
    fn of(station: &Station<impl Nic>, stride: usize) -> anyhow::Result<Self> {
        let from = station.bytes(0, BLOCK_BYTES)?;
        let to = station.bytes(BLOCK_BYTES, BLOCK_BYTES * stride)?;
        anyhow::ensure!(from.cast::<f64>().is_aligned() && to.cast::<f64>().is_aligned());
        Ok(Self { from, to, stride })
    }

    fn copy(&self) {
        let (from, to) = (black_box(self.from.cast::<f64>()), black_box(self.to.cast::<f64>()));
        let stride = black_box(self.stride);
        for i in 0..DOUBLES {
            // SAFETY: `of` has checked that row and target are inside the data and aligned, and `i` is inside the row.
            // The station owns the memory and outlives this value, and no receive into these bytes is in progress.
            unsafe { to.add(i * stride).write(from.add(i).read()) };
        }
        black_box(self.to);
    }
}

impl Player<'_> {
    pub(super) fn strided<N: Nic>(
        &mut self,
        nic: N,
        spread: Spread,
        strides: &[usize],
    ) -> anyhow::Result<()> {
        let stride_max = strides.iter().copied().max().unwrap_or(1);
        let long = BLOCKS * DOUBLES / SEGMENTS_MAX;
        let data = BLOCK_BYTES * (1 + stride_max);
        let station = self.station(nic, Room { short: SHORT, long, data })?;
        for &stride in strides {
            let rows = Strided::of(&station, stride)?;
            let reached = match spread {
                Spread::None => {
                    let copy = || {
                        rows.copy();
                        Ok(())
                    };
                    self.rounds(copy, || Ok(()))?.map(|ns| BLOCK_BYTES as f64 * 8e3 / ns)
                }
                Spread::Copied => {
                    let stream = Stream { window: BLOCKS, len: BLOCK_BYTES, way: Way::SendRecv };
                    for i in 0..BLOCKS {
                        station.prepare(Slot::Short(i), &[station.data(0, BLOCK_BYTES)])?;
                    }
                    let ns = self.stream(&station, stream, Slot::Short, |_| {
                        rows.copy();
                        Ok(())
                    })?;
                    ns.map(|ns| throughput(stream.len, ns))
                }
                Spread::Segments => {
                    let len = SEGMENTS_MAX * DOUBLE;
                    let stream = Stream { window: long, len, way: Way::SendRecv };
                    for i in 0..long {
                        // Number of the message's first double in the block.
                        let first = i % (DOUBLES / SEGMENTS_MAX) * SEGMENTS_MAX;
                        let segment =
                            |d| station.data(BLOCK_BYTES + (first + d) * stride * DOUBLE, DOUBLE);
                        let segments: Vec<DataSegment> = (0..SEGMENTS_MAX).map(segment).collect();
                        station.prepare(Slot::Long(i), &segments)?;
                    }
                    let ns = self.stream(&station, stream, Slot::Long, |_| Ok(()))?;
                    ns.map(|ns| throughput(stream.len, ns))
                }
            };
            if let Some(reached) = reached {
                self.reading(Metric::Throughput, stride, reached);
            }
        }
        Ok(())
    }

    pub(super) fn scatter<N: Nic>(
        &mut self,
        nic: N,
        spread: Spread,
        blocks: &[usize],
    ) -> anyhow::Result<()> {
        let block_max = blocks.iter().copied().max().unwrap_or(1);
        let target_at = SEGMENTS * block_max;
        let data = target_at + SEGMENTS * APART * block_max;
        let station = self.station(nic, Room { short: SHORT, long: MESSAGES, data })?;
        for &block in blocks {
            let len = SEGMENTS * block;
            let stream = Stream { window: MESSAGES, len, way: Way::SendRecv };
            let place = |i: usize| target_at + i * APART * block;
            let segments: Vec<DataSegment> = match spread {
                Spread::Segments => (0..SEGMENTS).map(|i| station.data(place(i), block)).collect(),
                Spread::Copied | Spread::None => vec![station.data(0, len)],
            };
            for i in 0..MESSAGES {
                station.prepare(Slot::Long(i), &segments)?;
            }
            let row = station.bytes(0, len)?;
            let targets = (0..SEGMENTS).map(|i| station.bytes(place(i), block));
            let targets = targets.collect::<anyhow::Result<Vec<_>>>()?;
            let ns = self.stream(&station, stream, Slot::Long, |_| {
                if spread == Spread::Copied {
                    for (i, to) in targets.iter().enumerate() {
                        // SAFETY: `bytes` has checked that the row's blocks and the targets are inside the data, where
                        // they do not overlap. The message has arrived, and no other message is received before this
                        // returns.
                        unsafe { row.add(i * block).copy_to_nonoverlapping(*to, block) };
                    }
                }
                Ok(())
            })?;
            if let Some(ns) = ns {
                self.reading(Metric::Throughput, block, throughput(len, ns));
            }
        }
        Ok(())
    }
}
