//! Single calls, many of a kind one after the other, with no other thread in their way.

use std::time::Instant;

use via::{Done, Nic, Vi};

use super::Player;
use crate::measure::bench::papers::station::{Room, Slot};
use crate::measure::bench::papers::work::Metric;

/// Messages that are posted, and later taken, in one go: fewer than any ring holds.
const MESSAGES: usize = 32;
const BYTES: usize = 4;
/// Looks in vain that are timed together.
const LOOKS: u32 = 1000;
/// So often everything is timed at least.
const ROUNDS_MIN: usize = 20;
/// Where the slots of sends begin, behind those of receives.
const SENDS_AT: usize = MESSAGES;

/// The times of calls, in nanoseconds each.
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
            let mut times = Times::default();
            for _ in 0..ROUNDS_MIN {
                times.time(LOOKS as usize, || {
                    for _ in 0..LOOKS {
                        anyhow::ensure!(look() == expected, "not {expected:?}");
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

        // The responder sends what the requester has posted receives for. Calls of a kind are timed
        // together. In every other round the requester looks for the messages while they are sent,
        // in the others it sleeps: then its receives are timed, with no other thread at work.
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
                            // Of a NIC in software some may not have been taken yet.
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
                        // Once in a while one waits for room.
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
