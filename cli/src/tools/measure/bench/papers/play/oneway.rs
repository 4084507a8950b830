//! One-way throughput, as the papers measure it: one end sends as fast as it can for a given time, the other confirms
//! once at the end.
//!
//! A message without a receive would break the connection, and nothing but memory slows the sender here. So the receiver
//! tells of receives that it has posted again, a quarter of them at a time, and the sender waits for that word only
//! where it has used up all of them.

use std::cell::Cell;

use via::{Nic, Vi};

use super::Player;
use crate::measure::bench::link::Link;
use crate::measure::bench::papers::rounds;
use crate::measure::bench::papers::station::{Room, Slot, Station, transfer_max};
use crate::measure::bench::papers::work::{Metric, Way};
use crate::measure::bench::task::Role;

/// Receives posted for a stream: about so many bytes of them, and a number within these bounds.
const WINDOW_BYTES: usize = 4 << 20;
const WINDOW_MIN: usize = 4;
const WINDOW_MAX: usize = 256;
/// The receiver says that it has posted so many parts of the window again.
const PARTS: usize = 4;
/// Sends that are posted and not yet found done, at most.
const SENDS: usize = 16;
/// Receives for what is no message of the stream: the words of the receiver and the confirmation, or news of an RDMA write.
const NOTES: usize = PARTS + 2;
/// Where short descriptors lie: receives, sends, notes, then the word of receives and the confirmation.
const SENDS_AT: usize = WINDOW_MAX;
const NOTES_AT: usize = SENDS_AT + SENDS;
const AGAIN: Slot = Slot::Short(NOTES_AT + NOTES);
const CONFIRM: Slot = Slot::Short(NOTES_AT + NOTES + 1);
pub(super) const SHORT: usize = NOTES_AT + NOTES + 2;
/// Bytes of the confirmation; the word of receives has none.
const CONFIRM_BYTES: usize = 1;
/// The reader's buffer over a socket, in bytes.
pub(super) const SOCKET_BUFFER_BYTES: usize = 128 << 10;

/// A stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Receives that are posted, and bytes of a message.
    pub(super) window: usize,
    pub(super) len: usize,
    pub(super) way: Way,
}

impl Stream {
    fn of(len: usize, way: Way) -> Self {
        Self { window: (WINDOW_BYTES / len).clamp(WINDOW_MIN, WINDOW_MAX), len, way }
    }

    /// After so many messages the receiver says that it has posted their receives again.
    fn part(self) -> usize {
        (self.window / PARTS).max(1)
    }
}

/// Mbit/s where a message of so many bytes takes so many nanoseconds.
pub(super) fn throughput(len: usize, message_ns: f64) -> f64 {
    len as f64 * 8e3 / message_ns
}

impl Player<'_> {
    pub(super) fn one_way<N: Nic>(&mut self, nic: N, sizes: &[usize]) -> anyhow::Result<()> {
        // Longer ones would be several messages, of which the receiver would have to post as many receives.
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

    /// Measures a stream over a VI of its own; the requester gets the nanoseconds of a message. The
    /// receives in `slots` are prepared; the receiver has `after` called for each message, by
    /// the place of its receive in the window.
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
                    // The last bytes are not to wait for the acknowledgement of those before: that is done late.
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

/// The sending end.
struct Sender<'a, N: Nic> {
    station: &'a Station<N>,
    vi: &'a N::Vi,
    stream: Stream,
    /// Receives that are known to be posted.
    posted: Cell<usize>,
}

impl<N: Nic> Sender<'_, N> {
    /// Sends so many messages, and waits until they are confirmed.
    fn send(&self, messages: u64) -> anyhow::Result<()> {
        let Self { station, vi, stream, .. } = self;
        for i in 0..messages as usize {
            let slot = Slot::Short(SENDS_AT + i % SENDS);
            if i >= SENDS {
                station.sent(vi)?;
            }
            if stream.way == Way::RdmaWrite && i + 1 == messages as usize {
                // The last one tells the target that all are there: they are done in order.
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
        // All receives are posted again.
        self.posted.set(stream.window);
        Ok(())
    }

    /// Waits for the receiver's next word; returns whether it is the confirmation.
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
