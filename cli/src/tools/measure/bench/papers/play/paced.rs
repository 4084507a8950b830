//! A stream at the pace of the papers' network, with each end's processor time (ICS, section 4.3 and figure 10).
//!
//! At full speed both ends are always busy here, because they also do the adapter's work. Processor time would then say
//! nothing. At an adapter's pace, both ends block in between.

use std::time::Duration;

use super::Player;
use super::oneway::SOCKET_BUFFER_BYTES;
use crate::measure::bench::cpu_time::{CpuTime, Load};
use crate::measure::bench::link::Link;
use crate::measure::bench::pace::Pace;
use crate::measure::bench::papers::work::Metric;

/// Factor by which a point takes longer than in other parts, because the cost of sleeping and waking varies between
/// bursts.
const LONGER: f64 = 4.0;
/// Value of the bytes in messages, and of the single byte after the last message.
const GO: u8 = 1;
const STOP: u8 = 0;

/// Results of one end of a stream.
struct Seen {
    load: Load,
    mbits: f64,
}

impl Player<'_> {
    /// Offers `mbits` Mbit/s in messages of each size.
    pub(super) fn paced_over(
        &mut self,
        link: &mut dyn Link,
        sizes: &[usize],
        mbits: u32,
    ) -> anyhow::Result<()> {
        for &size in sizes {
            let pace = Pace { size, bytes_per_second: f64::from(mbits) * 1e6 / 8.0 };
            // A first run lets the waiting thread learn how long to spin.
            self.paced(link, pace, 1.0)?;
            let seen = self.paced(link, pace, LONGER)?;
            self.reading(Metric::Processor, size, seen.load.percent);
            self.reading(Metric::ProcessorUser, size, seen.load.user);
            self.reading(Metric::ProcessorSystem, size, seen.load.percent - seen.load.user);
            // Percent of a second per Mbit/s, converted to µs per MB.
            let per_mb = seen.load.percent * 1e4 / (seen.mbits / 8.0).max(1e-9);
            self.reading(Metric::ProcessorPerByte, size, per_mb);
            if self.is_requester() {
                self.reading(Metric::Throughput, size, seen.mbits);
            }
        }
        Ok(())
    }

    fn paced(&mut self, link: &mut dyn Link, pace: Pace, times: f64) -> anyhow::Result<Seen> {
        self.control.meet()?;
        if self.is_requester() {
            offer(link, pace, Duration::from_secs_f64(self.part.seconds * times))
        } else {
            take(link)
        }
    }
}

/// Sends at the pace for `time`, and waits for the confirmation.
fn offer(link: &mut dyn Link, pace: Pace, time: Duration) -> anyhow::Result<Seen> {
    let message = vec![GO; pace.size];
    let cpu = CpuTime::start()?;
    let sent = pace.keep(time, usize::MAX, || link.send(&message))?;
    link.send(&[STOP])?;
    link.flush()?;
    link.receive_all(&mut [0])?;
    seen(&cpu, sent * pace.size)
}

/// Receives until the sender has stopped, then confirms.
fn take(link: &mut dyn Link) -> anyhow::Result<Seen> {
    let mut buffer = vec![GO; SOCKET_BUFFER_BYTES];
    let cpu = CpuTime::start()?;
    let mut received = 0;
    loop {
        let len = link.receive(&mut buffer)?;
        received += len;
        if buffer[..len].ends_with(&[STOP]) {
            break;
        }
    }
    let seen = seen(&cpu, received - 1)?;
    link.send(&[GO])?;
    Ok(seen)
}

fn seen(cpu: &CpuTime, bytes: usize) -> anyhow::Result<Seen> {
    let mbits = bytes as f64 * 8e-6 / cpu.passed().as_secs_f64().max(1e-9);
    Ok(Seen { load: cpu.load()?, mbits })
}
