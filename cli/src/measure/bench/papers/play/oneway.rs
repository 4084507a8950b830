//! One-way throughput, as the paper measures it: one end sends as fast as it can, the other
//! confirms at the end. A round is a fixed number of messages and the confirmation.

use via::{Nic, Vi};

use super::Player;
use crate::bench::link::Link;
use crate::bench::papers::station::{Room, Slot, Station, transfer_max};
use crate::bench::papers::work::{Metric, Way};
use crate::bench::task::Role;

/// A round has about so many bytes, and a number of messages within these bounds: so many
/// receives are posted to begin with.
const ROUND_BYTES: usize = 4 << 20;
const MESSAGES_MIN: usize = 4;
const MESSAGES_MAX: usize = 256;
/// Sends that are posted and not yet found done, at most.
const SENDS: usize = 16;
/// Receives for what is not a message of the stream: the confirmation, or news of an RDMA write.
const NOTES: usize = 2;
/// Where short descriptors lie: receives, sends, then the confirmation's.
const SENDS_AT: usize = MESSAGES_MAX;
const NOTES_AT: usize = SENDS_AT + SENDS;
const CONFIRM: Slot = Slot::Short(NOTES_AT + NOTES);
pub(super) const SHORT: usize = NOTES_AT + NOTES + 1;
/// The reader's buffer over a socket, in bytes.
pub(super) const SOCKET_BUFFER_BYTES: usize = 128 << 10;

/// A stream's round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Messages of a round, and bytes of one.
    pub(super) messages: usize,
    pub(super) len: usize,
    pub(super) way: Way,
}

impl Stream {
    fn of(len: usize, way: Way) -> Self {
        Self { messages: (ROUND_BYTES / len).clamp(MESSAGES_MIN, MESSAGES_MAX), len, way }
    }

    /// Mbit/s where a round takes so many nanoseconds.
    pub(super) fn throughput(self, round_ns: f64) -> f64 {
        (self.messages * self.len) as f64 * 8e3 / round_ns
    }
}

impl Player<'_> {
    pub(super) fn one_way<N: Nic>(&mut self, nic: N, sizes: &[usize]) -> anyhow::Result<()> {
        // Longer ones would be several messages, of which the receiver would have to post as many receives.
        let sizes: Vec<_> = sizes.iter().filter(|len| **len <= transfer_max(&nic)).collect();
        let len_max = sizes.iter().copied().max().copied().unwrap_or(1);
        let station = self.station(nic, Room { short: SHORT, long: 0, data: len_max })?;
        for &len in sizes {
            let stream = Stream::of(len, self.part.way);
            for i in 0..stream.messages {
                station.prepare(Slot::Short(i), &[station.data(0, len)])?;
            }
            let ns = self.stream(&station, stream, Slot::Short, |_| Ok(()))?;
            if let Some(ns) = ns {
                self.reading(Metric::Throughput, len, stream.throughput(ns));
            }
        }
        Ok(())
    }

    /// Measures a stream over a VI of its own; the requester gets the nanoseconds of a round. The
    /// receives in `slots` are prepared; the receiver has `after` called for each message, by
    /// its place in the round.
    pub(super) fn stream<N: Nic>(
        &mut self,
        station: &Station<N>,
        stream: Stream,
        slots: fn(usize) -> Slot,
        mut after: impl FnMut(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<f64>> {
        let vi = station.vi(None, 0)?;
        let receives = match (self.role, stream.way) {
            (Role::Responder, Way::SendRecv) => stream.messages,
            _ => NOTES,
        };
        for i in 0..NOTES {
            station.prepare(Slot::Short(NOTES_AT + i), &[])?;
        }
        for i in 0..SENDS {
            let (slot, data) = (Slot::Short(SENDS_AT + i), station.data(0, stream.len));
            match stream.way {
                Way::RdmaWrite => station.prepare_write(slot, data, 0, None)?,
                _ => station.prepare(slot, &[data])?,
            };
        }
        station.prepare(CONFIRM, &[])?;
        let stream_slot = |i| match (self.role, stream.way) {
            (Role::Responder, Way::SendRecv) => slots(i),
            _ => Slot::Short(NOTES_AT + i % NOTES),
        };
        for i in 0..receives {
            vi.post_recv(station.address(stream_slot(i)))?;
        }
        station.connect(&vi)?;
        self.control.meet()?;
        let request = || request(station, &vi, stream);
        let serve = || serve(station, &vi, stream, &mut after);
        let ns = self.rounds(request, serve)?;
        self.control.meet()?;
        Ok(ns)
    }

    pub(super) fn one_way_over(
        &mut self,
        link: &mut dyn Link,
        sizes: &[usize],
    ) -> anyhow::Result<()> {
        let link = std::cell::RefCell::new(link);
        for &len in sizes {
            let stream = Stream::of(len, self.part.way);
            let message = vec![1; len];
            let mut buffer = vec![0; SOCKET_BUFFER_BYTES];
            let ns = self.rounds(
                || {
                    let mut link = link.borrow_mut();
                    for _ in 0..stream.messages {
                        link.send(&message)?;
                    }
                    Ok(link.receive_all(&mut [0])?)
                },
                || {
                    let mut link = link.borrow_mut();
                    let mut left = stream.messages * len;
                    while left > 0 {
                        left -= link.receive(&mut buffer[..left.min(SOCKET_BUFFER_BYTES)])?;
                    }
                    Ok(link.send(&[1])?)
                },
            )?;
            if let Some(ns) = ns {
                self.reading(Metric::Throughput, len, stream.throughput(ns));
            }
        }
        Ok(())
    }
}

fn request<N: Nic>(station: &Station<N>, vi: &N::Vi, stream: Stream) -> anyhow::Result<()> {
    for i in 0..stream.messages {
        let slot = Slot::Short(SENDS_AT + i % SENDS);
        if i >= SENDS {
            station.sent(vi)?;
        }
        if stream.way == Way::RdmaWrite && i + 1 == stream.messages {
            // The last one tells the target that all are there: they are done in order.
            let data = station.data(0, stream.len);
            vi.post_send(station.prepare_write(slot, data, 0, Some(0))?)?;
        } else {
            vi.post_send(station.address(slot))?;
        }
    }
    for _ in 0..stream.messages.min(SENDS) {
        station.sent(vi)?;
    }
    if stream.way == Way::RdmaWrite {
        let slot = Slot::Short(SENDS_AT + (stream.messages - 1) % SENDS);
        station.prepare_write(slot, station.data(0, stream.len), 0, None)?;
    }
    let confirmed = station.received(vi)?;
    Ok(vi.post_recv(confirmed.descriptor)?)
}

fn serve<N: Nic>(
    station: &Station<N>,
    vi: &N::Vi,
    stream: Stream,
    after: &mut impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let messages = if stream.way == Way::RdmaWrite { 1 } else { stream.messages };
    for i in 0..messages {
        let received = station.received(vi)?;
        after(i)?;
        vi.post_recv(received.descriptor)?;
    }
    station.send(vi, station.address(CONFIRM))
}
