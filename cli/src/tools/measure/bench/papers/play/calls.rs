//! Single calls, many of a kind one after the other, without interference by other threads.

use std::time::Instant;

use via::{Done, Nic, Vi};

use super::Player;
use crate::measure::bench::papers::station::{Room, Slot};
use crate::measure::bench::papers::work::Metric;

/// Number of messages that are posted, and later taken, at a time. It is smaller than any ring.
const MESSAGES: usize = 32;
const BYTES: usize = 4;
/// Number of unsuccessful polls that are timed together.
const LOOKS: u32 = 1000;
/// Smallest number of rounds.
const ROUNDS_MIN: usize = 20;
/// First slot of the sends, after those of the receives.
const SENDS_AT: usize = MESSAGES;

/// Times of single calls, in nanoseconds.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn time<T>(
        &mut self,
        calls: usize,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let result = work()?;
        self.0.push(start.elapsed().as_nanos() as f64 / calls as f64);
        Ok(result)
    }

    fn median(mut self) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0.get(self.0.len() / 2).copied().unwrap_or(0.0)
    }
}

impl Player<'_> {
    pub(super) fn calls<N: Nic>(&mut self, nic: N) -> anyhow::Result<()> {
        let station = self.station(nic, Room { short: 2 * MESSAGES, long: 0, data: 4096 })?;
        let vi = station.vi(None, 0)?;
        for i in 0..MESSAGES {
            station.prepare(Slot::Short(i), &[station.data(0, BYTES)])?;
            station.prepare(Slot::Short(SENDS_AT + i), &[station.data(64, BYTES)])?;
        }
        station.connect(&vi)?;
        self.control.meet()?;
        let looks = |expected: Done, look: &dyn Fn() -> Done| {
            let wrong = match expected {
                Done::Empty => "the queue has a descriptor, but should be empty",
                Done::NotDone => "a descriptor is done too early, or the queue is empty",
                Done::Completion(_) => "the oldest descriptor is not the expected one",
            };
            let mut times = Times::default();
            for _ in 0..ROUNDS_MIN {
                times.time(LOOKS as usize, || {
                    for _ in 0..LOOKS {
                        anyhow::ensure!(look() == expected, "cannot time the calls: {wrong}");
                    }
                    Ok(())
                })?;
            }
            anyhow::Ok(times.median())
        };
        if self.is_requester() {
            let empty = looks(Done::Empty, &|| vi.send_done())?;
            self.reading(Metric::SendDoneEmpty, BYTES, empty);
            let empty = looks(Done::Empty, &|| vi.recv_done())?;
            self.reading(Metric::RecvDoneEmpty, BYTES, empty);
        }

        // The responder sends messages for which the requester has posted receives. Calls of a kind are timed together.
        // In every other round the requester polls while the messages are sent. In the other rounds it sleeps, and its
        // receive calls are timed afterwards, when no other thread works.
        let [mut posts, mut silent, mut pending, mut takes] = [(); 4].map(|()| Times::default());
        let begin = Instant::now();
        let mut rounds = 0;
        loop {
            if self.is_requester() {
                if rounds >= ROUNDS_MIN && begin.elapsed().as_secs_f64() >= self.part.seconds {
                    break;
                }
                posts.time(MESSAGES, || {
                    for i in 0..MESSAGES {
                        vi.post_recv(station.address(Slot::Short(i)))?;
                    }
                    Ok(())
                })?;
                if rounds < ROUNDS_MIN {
                    pending.0.push(looks(Done::NotDone, &|| vi.recv_done())?);
                }
                self.control.tell(1)?;
                if rounds % 2 == 0 {
                    for _ in 0..MESSAGES {
                        station.received(&vi)?;
                    }
                    self.control.hear()?;
                } else {
                    self.control.hear()?;
                    takes.time(MESSAGES, || {
                        for _ in 0..MESSAGES {
                            // A NIC in software may not have delivered some messages yet.
                            station.received(&vi)?;
                        }
                        Ok(())
                    })?;
                }
            } else {
                if self.control.hear()? == 0 {
                    break;
                }
                let times = if rounds % 2 == 0 { &mut posts } else { &mut silent };
                times.time(MESSAGES, || {
                    for i in 0..MESSAGES {
                        vi.post_send(station.address(Slot::Short(SENDS_AT + i)))?;
                    }
                    Ok(())
                })?;
                takes.time(MESSAGES, || {
                    for _ in 0..MESSAGES {
                        // Now and then a send waits for room.
                        station.sent(&vi)?;
                    }
                    Ok(())
                })?;
                self.control.tell(1)?;
            }
            rounds += 1;
        }
        if self.is_requester() {
            self.control.tell(0)?;
            self.reading(Metric::PostRecv, BYTES, posts.median());
            self.reading(Metric::RecvDonePending, BYTES, pending.median());
            self.reading(Metric::RecvDoneReady, BYTES, takes.median());
        } else {
            self.reading(Metric::PostSend, BYTES, posts.median());
            self.reading(Metric::PostSendSilent, BYTES, silent.median());
            self.reading(Metric::SendDoneReady, BYTES, takes.median());
        }
        Ok(())
    }
}
