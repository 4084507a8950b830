//! One-way throughput, measured like in the papers. One end sends as fast as possible for a given time. The other end
//! confirms once at the end.
//!
//! A message without a receive would break the connection, and nothing slows the sender here. So the receiver reports
//! receives that it has posted again, a quarter of the window at a time. The sender waits for this report only when it
//! has used up all receives.

use std::cell::Cell;

use via::{Nic, Vi};

use super::Player;
use crate::measure::bench::link::Link;
use crate::measure::bench::papers::rounds;
use crate::measure::bench::papers::station::{Room, Slot, Station, transfer_max};
use crate::measure::bench::papers::work::{Metric, Way};
use crate::measure::bench::task::Role;

/// Receives posted for a stream: about this many bytes, and a number within these bounds.
const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_MIN: usize = 4;
const WINDOW_MAX: usize = 256;
/// Number of parts of the window. The receiver reports each part that it has posted again.
const PARTS: usize = 4;
/// Largest number of sends that are not known to be complete.
const SENDS: usize = 16;
/// Number of receives for other messages: the receiver's reports and the confirmation, or notices of RDMA writes.
const NOTES: usize = PARTS + 2;
/// Positions of the short descriptors: receives, sends, notes, then the report of receives and the confirmation.
const SENDS_AT: usize = WINDOW_MAX;
const NOTES_AT: usize = SENDS_AT + SENDS;
const AGAIN: Slot = Slot::Short(NOTES_AT + NOTES);
const CONFIRM: Slot = Slot::Short(NOTES_AT + NOTES + 1);
pub(super) const SHORT: usize = NOTES_AT + NOTES + 2;
/// Length of the confirmation in bytes. The report of receives has no bytes.
const CONFIRM_BYTES: usize = 1;
/// Size of the reader's buffer over a socket, in bytes.
pub(super) const SOCKET_BUFFER_BYTES: usize = 128 << 10;

/// A stream of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Number of posted receives, and length of a message in bytes.
    pub(super) window: usize,
    pub(super) len: usize,
    pub(super) way: Way,
}

impl Stream {
    fn of(len: usize, way: Way) -> Self {
        Self { window: (WINDOW_BYTES / len).clamp(WINDOW_MIN, WINDOW_MAX), len, way }
    }

    /// Returns the number of messages after which the receiver reports that it has posted their receives again.
    fn part(self) -> usize {
        (self.window / PARTS).max(1)
    }
}

/// Returns the throughput in Mbit/s for messages of `len` bytes that take `message_ns` nanoseconds each.
pub(super) fn throughput(len: usize, message_ns: f64) -> f64 {
    len as f64 * 8e3 / message_ns
}

impl Player<'_> {
    pub(super) fn one_way<N: Nic>(&mut self, nic: N, sizes: &[usize]) -> anyhow::Result<()> {
        // A longer message would be sent as several messages, each with a receive of its own.
        let sizes: Vec<_> = sizes.iter().filter(|len| **len <= transfer_max(&nic)).collect();
        let len_max = sizes.iter().copied().max().copied().unwrap_or(1);
        let station = self.station(nic, Room { short: SHORT, long: 0, data: len_max })?;
        for &len in sizes {
            let stream = Stream::of(len, self.part.way);
            for i in 0..stream.window {
                station.prepare(Slot::Short(i), &[station.data(0, len)])?;
            }
            let ns = self.stream(&station, stream, Slot::Short, |_| Ok(()))?;
            if let Some(ns) = ns {
                self.reading(Metric::Throughput, len, throughput(len, ns));
            }
        }
        Ok(())
    }

    /// Measures a stream over a new VI. The requester gets the nanoseconds of a message. The receives in `slots` must
    /// be prepared. The receiver calls `after` for each message, with the number of its receive in the window.
    pub(super) fn stream<N: Nic>(
        &mut self,
        station: &Station<N>,
        stream: Stream,
        slots: fn(usize) -> Slot,
        mut after: impl FnMut(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<f64>> {
        let vi = station.vi(None, 0)?;
        for i in 0..NOTES {
            station.prepare(Slot::Short(NOTES_AT + i), &[station.data(0, CONFIRM_BYTES)])?;
        }
        for i in 0..SENDS {
            let (slot, data) = (Slot::Short(SENDS_AT + i), station.data(0, stream.len));
            match stream.way {
                Way::RdmaWrite => station.prepare_write(slot, data, 0, None)?,
                _ => station.prepare(slot, &[data])?,
            };
        }
        station.prepare(AGAIN, &[])?;
        station.prepare(CONFIRM, &[station.data(0, CONFIRM_BYTES)])?;
        let receives_messages = (self.role, stream.way) == (Role::Responder, Way::SendRecv);
        let (receives, slot): (usize, fn(usize) -> Slot) = if receives_messages {
            (stream.window, slots)
        } else {
            (NOTES, |i| Slot::Short(NOTES_AT + i))
        };
        for i in 0..receives {
            vi.post_recv(station.address(slot(i)))?;
        }
        station.connect(&vi)?;
        self.control.meet()?;
        let sender = Sender { station, vi: &vi, stream, posted: Cell::new(stream.window) };
        let ns = if self.is_requester() {
            let play = |messages| sender.send(messages);
            Some(rounds::lead_stream(&mut self.control, self.part.seconds, play)?)
        } else {
            let play = |messages| serve(station, &vi, stream, messages, &mut after);
            rounds::follow_stream(&mut self.control, play)?;
            None
        };
        self.control.meet()?;
        Ok(ns)
    }

    pub(super) fn one_way_over(
        &mut self,
        link: &mut dyn Link,
        sizes: &[usize],
    ) -> anyhow::Result<()> {
        for &len in sizes {
            let message = vec![1; len];
            let mut buffer = vec![0; SOCKET_BUFFER_BYTES];
            if self.is_requester() {
                let flushes = self.part.nagle;
                let ns = rounds::lead_stream(&mut self.control, self.part.seconds, |messages| {
                    for _ in 0..messages {
                        link.send(&message)?;
                    }
                    // Without the flush, the last bytes would wait for a late acknowledgement.
                    if flushes {
                        link.flush()?;
                    }
                    Ok(link.receive_all(&mut [0])?)
                })?;
                self.reading(Metric::Throughput, len, throughput(len, ns));
            } else {
                rounds::follow_stream(&mut self.control, |messages| {
                    let mut left = messages as usize * len;
                    while left > 0 {
                        left -= link.receive(&mut buffer[..left.min(SOCKET_BUFFER_BYTES)])?;
                    }
                    Ok(link.send(&[1])?)
                })?;
            }
        }
        Ok(())
    }
}

/// The sending end of a stream.
struct Sender<'a, N: Nic> {
    station: &'a Station<N>,
    vi: &'a N::Vi,
    stream: Stream,
    /// Number of receives known to be posted.
    posted: Cell<usize>,
}

impl<N: Nic> Sender<'_, N> {
    /// Sends `messages` messages, and waits for the confirmation.
    fn send(&self, messages: u64) -> anyhow::Result<()> {
        let Self { station, vi, stream, .. } = self;
        for i in 0..messages as usize {
            let slot = Slot::Short(SENDS_AT + i % SENDS);
            if i >= SENDS {
                station.sent(vi)?;
            }
            if stream.way == Way::RdmaWrite && i + 1 == messages as usize {
                // RDMA writes complete in order, so only the last one notifies the target.
                let data = station.data(0, stream.len);
                vi.post_send(station.prepare_write(slot, data, 0, Some(0))?)?;
                continue;
            }
            while stream.way == Way::SendRecv && self.posted.get() == 0 {
                self.note()?;
            }
            self.posted.set(self.posted.get().saturating_sub(1));
            vi.post_send(station.address(slot))?;
        }
        for _ in 0..(messages as usize).min(SENDS) {
            station.sent(vi)?;
        }
        if stream.way == Way::RdmaWrite {
            let slot = Slot::Short(SENDS_AT + (messages as usize - 1) % SENDS);
            station.prepare_write(slot, station.data(0, stream.len), 0, None)?;
        }
        while !self.note()? {}
        // The receiver has posted all receives again.
        self.posted.set(stream.window);
        Ok(())
    }

    /// Waits for the receiver's next report. Returns true if it is the confirmation.
    fn note(&self) -> anyhow::Result<bool> {
        let note = self.station.received(self.vi)?;
        self.vi.post_recv(note.descriptor)?;
        self.posted.set(self.posted.get() + self.stream.part());
        Ok(note.length as usize == CONFIRM_BYTES)
    }
}

fn serve<N: Nic>(
    station: &Station<N>,
    vi: &N::Vi,
    stream: Stream,
    messages: u64,
    after: &mut impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let messages = if stream.way == Way::RdmaWrite { 1 } else { messages as usize };
    for i in 1..=messages {
        let received = station.received(vi)?;
        after((i - 1) % stream.window)?;
        vi.post_recv(received.descriptor)?;
        if stream.way == Way::SendRecv && i % stream.part() == 0 {
            station.send(vi, station.address(AGAIN))?;
        }
    }
    station.send(vi, station.address(CONFIRM))
}
