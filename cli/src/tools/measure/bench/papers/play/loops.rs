//! The eight loops of the paper's Table 1: ping-pong with four bytes. The loops use sends and receives or RDMA writes,
//! poll or block, and run as requester and as responder. They are timed as a whole, and call by call.
//!
//! The loops post and poll in the paper's order, in which a message may come before the receive for it is posted. So
//! there is always one receive more than the loop needs.

use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use via::{DescriptorAddress, Nic, Vi};

use super::Player;
use super::clock::{self, Pace};
use super::rounds;
use crate::measure::bench::papers::station::{Room, Slot, Station};
use crate::measure::bench::papers::work::{Metric, Way};
use crate::measure::bench::task::{Role, Wait};

/// Size of the paper's message.
const BYTES: usize = 4;
/// Number of receives posted to a loop's VI.
const RECEIVES: usize = 2;
/// Slot of the sends, after those of the receives.
const OUT: Slot = Slot::Short(RECEIVES);
/// Offsets in the data: the flag that the peer writes, the bytes to send, the received bytes.
const FLAG_AT: usize = 0;
const OUT_AT: usize = 64;
const IN_AT: usize = 128;
/// Largest number of rounds that are timed call by call.
const CALLS_MAX: f64 = 200_000.0;
/// Largest number of calls in a loop.
const STEPS: usize = 4;

/// Reads the ticks between two calls of a loop, or does nothing.
trait Stamps {
    fn begin(&mut self);
    /// Records the end of the call number `step` of the loop.
    fn step(&mut self, step: usize);
}

/// The loop without timing of calls.
struct Unstamped;

impl Stamps for Unstamped {
    #[inline(always)]
    fn begin(&mut self) {}
    #[inline(always)]
    fn step(&mut self, _step: usize) {}
}

/// The loop with timing of each call.
struct Stamped {
    last: u64,
    steps: [Histogram<u64>; STEPS],
}

impl Stamped {
    fn new() -> anyhow::Result<Self> {
        let new = || Histogram::new_with_bounds(1, 1 << 40, 3);
        Ok(Self { last: 0, steps: [new()?, new()?, new()?, new()?] })
    }
}

impl Stamps for Stamped {
    #[inline(always)]
    fn begin(&mut self) {
        self.last = clock::ticks();
    }

    #[inline(always)]
    fn step(&mut self, step: usize) {
        let now = clock::ticks();
        self.steps[step].saturating_record(now - self.last);
        // The time of recording must not count for the next call.
        self.last = clock::ticks();
    }
}

/// A loop's VI and its descriptors.
struct Loop<'a, N: Nic> {
    station: &'a Station<N>,
    vi: &'a N::Vi,
    out: DescriptorAddress,
    /// Number of the receive to post next.
    next: std::cell::Cell<usize>,
}

impl<N: Nic> Loop<'_, N> {
    fn post_recv(&self) -> anyhow::Result<()> {
        let next = self.next.get();
        self.vi.post_recv(self.station.address(Slot::Short(next)))?;
        self.next.set((next + 1) % RECEIVES);
        Ok(())
    }

    fn send_requester(&self, stamps: &mut impl Stamps) -> anyhow::Result<()> {
        stamps.begin();
        self.vi.post_send(self.out)?;
        stamps.step(0);
        self.post_recv()?;
        stamps.step(1);
        self.station.sent(self.vi)?;
        stamps.step(2);
        self.station.received(self.vi)?;
        stamps.step(3);
        Ok(())
    }

    fn send_responder(&self, stamps: &mut impl Stamps) -> anyhow::Result<()> {
        stamps.begin();
        self.station.received(self.vi)?;
        stamps.step(0);
        self.vi.post_send(self.out)?;
        stamps.step(1);
        self.station.sent(self.vi)?;
        stamps.step(2);
        self.post_recv()?;
        stamps.step(3);
        Ok(())
    }

    fn write_requester(&self, stamps: &mut impl Stamps) -> anyhow::Result<()> {
        let flag = self.station.word(FLAG_AT)?;
        stamps.begin();
        flag.store(1, Ordering::Release);
        self.vi.post_send(self.out)?;
        stamps.step(0);
        self.station.sent(self.vi)?;
        stamps.step(1);
        self.station.await_word(self.vi, flag, |flag| flag == 0)?;
        stamps.step(2);
        Ok(())
    }

    fn write_responder(&self, stamps: &mut impl Stamps) -> anyhow::Result<()> {
        let flag = self.station.word(FLAG_AT)?;
        stamps.begin();
        self.station.await_word(self.vi, flag, |flag| flag != 0)?;
        stamps.step(0);
        flag.store(0, Ordering::Release);
        self.vi.post_send(self.out)?;
        stamps.step(1);
        self.station.sent(self.vi)?;
        stamps.step(2);
        Ok(())
    }
}

/// Returns the mean without the longest values, which were interrupted. A median would be too coarse if the counter has
/// steps of many nanoseconds.
fn trimmed_mean(ticks: &Histogram<u64>) -> f64 {
    let kept = ticks.len() - ticks.len() / clock::TRIMMED;
    let (mut sum, mut left) = (0.0, kept);
    for value in ticks.iter_recorded() {
        let count = value.count_at_value().min(left);
        sum += value.value_iterated_to() as f64 * count as f64;
        left -= count;
    }
    sum / kept.max(1) as f64
}

/// Returns the calls of a loop, in order.
fn steps(way: Way, wait: Wait, role: Role) -> &'static [Metric] {
    use Metric::{Flag, PostRecv, PostSend, RecvDone, RecvWait, SendDone, SendWait};
    match (way, wait, role) {
        (Way::RdmaWrite, Wait::Poll, Role::Requester) => &[PostSend, SendDone, Flag],
        (Way::RdmaWrite, Wait::Poll, Role::Responder) => &[Flag, PostSend, SendDone],
        (Way::RdmaWrite, _, Role::Requester) => &[PostSend, SendWait, Flag],
        (Way::RdmaWrite, _, Role::Responder) => &[Flag, PostSend, SendWait],
        (_, Wait::Poll, Role::Requester) => &[PostSend, PostRecv, SendDone, RecvDone],
        (_, Wait::Poll, Role::Responder) => &[RecvDone, PostSend, SendDone, PostRecv],
        (_, _, Role::Requester) => &[PostSend, PostRecv, SendWait, RecvWait],
        (_, _, Role::Responder) => &[RecvWait, PostSend, SendWait, PostRecv],
    }
}

impl Player<'_> {
    pub(super) fn loops<N: Nic>(&mut self, nic: N) -> anyhow::Result<()> {
        let room = Room { short: RECEIVES + 1, long: 0, data: 4096 };
        let station = self.station(nic, room)?;
        let vi = station.vi(None, 0)?;
        let (way, role) = (self.part.way, self.role);
        let data = station.data(OUT_AT, BYTES);
        // The requester sets the responder's flag. The responder clears the requester's flag.
        station.word(OUT_AT)?.store(u32::from(role == Role::Requester), Ordering::Release);
        let out = match way {
            Way::RdmaWrite => station.prepare_write(OUT, data, FLAG_AT, None)?,
            _ => station.prepare(OUT, &[data])?,
        };
        for i in 0..RECEIVES {
            station.prepare(Slot::Short(i), &[station.data(IN_AT, BYTES)])?;
        }
        let it = Loop { station: &station, vi: &vi, out, next: std::cell::Cell::new(0) };
        // The responder's loop posts a receive after each message. The requester's loop posts one before it polls.
        let ahead = if role == Role::Requester { RECEIVES - 1 } else { RECEIVES };
        (0..ahead).try_for_each(|_| it.post_recv())?;
        station.connect(&vi)?;
        self.control.meet()?;

        let round = match way {
            Way::RdmaWrite => self.rounds(
                || it.write_requester(&mut Unstamped),
                || it.write_responder(&mut Unstamped),
            )?,
            _ => self.rounds(
                || it.send_requester(&mut Unstamped),
                || it.send_responder(&mut Unstamped),
            )?,
        };
        if let Some(ns) = round {
            self.reading(Metric::RoundTrip, BYTES, ns / 1e3);
        }
        self.stamped(&it, round)
    }

    /// Runs the loop again, with timing of each call.
    fn stamped<N: Nic>(&mut self, it: &Loop<'_, N>, round_ns: Option<f64>) -> anyhow::Result<()> {
        let mut stamped = Stamped::new()?;
        let pace = Pace::take();
        let way = self.part.way;
        if let Some(ns) = round_ns {
            let rounds = rounds::rounds_for(self.part.seconds, ns, CALLS_MAX);
            rounds::lead_once(&mut self.control, rounds, || match way {
                Way::RdmaWrite => it.write_requester(&mut stamped),
                _ => it.send_requester(&mut stamped),
            })?;
        } else {
            rounds::follow(&mut self.control, || match way {
                Way::RdmaWrite => it.write_responder(&mut stamped),
                _ => it.send_responder(&mut stamped),
            })?;
        }
        let calls = steps(way, self.part.wait, self.role);
        for (metric, ticks) in calls.iter().zip(&stamped.steps) {
            self.reading(*metric, BYTES, pace.call_ns(trimmed_mean(ticks)));
        }
        Ok(())
    }
}
