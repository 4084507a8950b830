//! The ping-pong loop by size: two-way throughput, and NetPIPE's sweep.
//!
//! A message that is longer than the NIC allows goes in pieces, like in NetPIPE's module for VIA. An RDMA write
//! notifies its target by immediate data: only the notice tells the target that the whole message has arrived.

use std::cell::RefCell;

use super::Player;
use crate::measure::bench::link::Link;
use crate::measure::bench::papers::station::{Room, Slot, Station, transfer_max};
use crate::measure::bench::papers::work::{End, Metric, Perturbed, Reading, Way};
use via::{Nic, Vi};

/// One end of the loop. Its descriptors are receives, then sends. Its data is the received bytes, then the bytes to
/// send.
struct PingPong<'a, N: Nic> {
    station: &'a Station<N>,
    vi: &'a N::Vi,
    way: Way,
    /// Length of a piece, and number of pieces of the longest message.
    piece: usize,
    pieces_max: usize,
    /// Number of sends of a message, and of receives.
    pieces: usize,
    receives: usize,
}

impl<N: Nic> PingPong<'_, N> {
    fn send(&self) -> anyhow::Result<()> {
        for i in 0..self.pieces {
            self.vi.post_send(self.station.address(Slot::Short(self.pieces_max + i)))?;
        }
        (0..self.pieces).try_for_each(|_| self.station.sent(self.vi).map(drop))
    }

    fn post_recvs(&self) -> anyhow::Result<()> {
        for i in 0..self.receives {
            self.vi.post_recv(self.station.address(Slot::Short(i)))?;
        }
        Ok(())
    }

    fn receive(&self) -> anyhow::Result<()> {
        (0..self.receives).try_for_each(|_| self.station.received(self.vi).map(drop))
    }

    /// Fills in the send descriptors for messages of `size` bytes.
    fn prepare(&self, size: usize) -> anyhow::Result<()> {
        for i in 0..self.pieces {
            let at = i * self.piece;
            let out = self.pieces_max * self.piece;
            let data = self.station.data(out + at, (size - at).min(self.piece));
            let slot = Slot::Short(self.pieces_max + i);
            match self.way {
                Way::RdmaWrite => {
                    let last = i + 1 == self.pieces;
                    self.station.prepare_write(slot, data, at, last.then_some(0))?
                }
                _ => self.station.prepare(slot, &[data])?,
            };
        }
        Ok(())
    }
}

impl Player<'_> {
    pub(super) fn ping_pong<N: Nic>(&mut self, nic: N, sizes: &[Perturbed]) -> anyhow::Result<()> {
        let longest = sizes.iter().map(|size| size.size()).max().unwrap_or(1);
        let piece = longest.min(transfer_max(&nic));
        let pieces_max = longest.div_ceil(piece);
        let room = Room { short: 2 * pieces_max, long: 0, data: 2 * pieces_max * piece };
        let station = self.station(nic, room)?;
        for i in 0..pieces_max {
            station.prepare(Slot::Short(i), &[station.data(i * piece, piece)])?;
        }
        let vi = station.vi(None, 0)?;
        station.connect(&vi)?;
        let way = self.part.way;
        // Number of receives that the responder has posted in advance.
        let mut ahead = 0;
        for &size in sizes {
            let pieces = size.size().div_ceil(piece);
            let receives = if way == Way::RdmaWrite { 1 } else { pieces };
            let (station, vi) = (&station, &vi);
            let it = PingPong { station, vi, way, piece, pieces_max, pieces, receives };
            it.prepare(size.size())?;
            if !self.is_requester() {
                anyhow::ensure!(ahead <= receives, "sizes are to ascend");
                for i in ahead..receives {
                    vi.post_recv(station.address(Slot::Short(i)))?;
                }
                ahead = receives;
            }
            self.control.meet()?;
            let ns = self.rounds(
                || {
                    it.post_recvs()?;
                    it.send()?;
                    it.receive()
                },
                || {
                    it.receive()?;
                    it.post_recvs()?;
                    it.send()
                },
            )?;
            self.two_way(size, ns);
        }
        Ok(())
    }

    pub(super) fn ping_pong_over(
        &mut self,
        link: &mut dyn Link,
        sizes: &[Perturbed],
    ) -> anyhow::Result<()> {
        let link = RefCell::new(link);
        for &size in sizes {
            let message = RefCell::new(vec![1; size.size()]);
            let ns = self.rounds(
                || {
                    let (mut link, mut message) = (link.borrow_mut(), message.borrow_mut());
                    link.send(&message)?;
                    Ok(link.receive_all(&mut message)?)
                },
                || {
                    let (mut link, mut message) = (link.borrow_mut(), message.borrow_mut());
                    link.receive_all(&mut message)?;
                    Ok(link.send(&message)?)
                },
            )?;
            self.two_way(size, ns);
        }
        Ok(())
    }

    /// Records the two figures of a round trip.
    fn two_way(&mut self, size: Perturbed, round_ns: Option<f64>) {
        let Some(ns) = round_ns else { return };
        let mut reading = |metric, value| {
            let x = size.base as u64;
            self.to.push(Reading { end: End::Requester, metric, x, off: size.off, value });
        };
        reading(Metric::HalfTrip, ns / 2e3);
        reading(Metric::Throughput, size.size() as f64 * 8e3 / (ns / 2.0));
    }
}
