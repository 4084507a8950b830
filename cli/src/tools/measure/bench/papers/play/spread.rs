//! Messages that are spread over the receiver's memory: the strided copy of doubles, and blocks
//! of growing size in 32 segments.

use std::hint::black_box;
use std::ptr::NonNull;

use via::{DataSegment, Nic};

use super::Player;
use super::oneway::{SHORT, Stream, throughput};
use crate::measure::bench::papers::station::{Room, SEGMENTS_MAX, Slot, Station};
use crate::measure::bench::papers::work::{Metric, Spread, Way};

/// Bytes of a double.
const DOUBLE: usize = size_of::<f64>();
/// Doubles of a strided block, about 8 KB as in the paper: four descriptors full.
const DOUBLES: usize = 4 * SEGMENTS_MAX;
const BLOCK_BYTES: usize = DOUBLES * DOUBLE;
/// Blocks whose receives are posted.
const BLOCKS: usize = 16;
/// Segments of a scattered message, as in the paper.
const SEGMENTS: usize = 32;
/// Scattered messages whose receives are posted.
const MESSAGES: usize = 64;
/// Blocks are this many of their lengths apart: every other place stays as it is.
const APART: usize = 2;

/// Doubles of a row, to be stored `stride` apart.
struct Strided {
    from: NonNull<u8>,
    to: NonNull<u8>,
    stride: usize,
}

impl Strided {
    /// In the station's data: the row at its beginning, the target behind it.
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
            // SAFETY: `of` has seen that the row and the target lie within the data and are
            // aligned, and `i` is within the row. The station, whose memory it is, lives on, and
            // no receive into these bytes is in progress.
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
                        // Which doubles of the block are this message's.
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
                        // SAFETY: `bytes` has seen that the row's blocks and the targets lie
                        // within the data, where they do not overlap; the message is there and
                        // no other is received before this returns.
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
