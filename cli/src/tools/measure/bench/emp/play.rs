//! Work of the two ends: the paper's figures 5 and 6, and its table 2.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::carrier::{Carrier, MOST};
use crate::measure::bench::cpu_time::CpuTime;
use crate::measure::bench::papers::clock::{Pace, ticks};
use crate::measure::bench::series::median;
use crate::measure::bench::task::Role;

/// Length and number of the messages in a batch (section 5.2).
pub(super) const BATCH_BYTES: usize = 10_000;
pub(super) const BATCH: usize = 5;
/// Largest number of sends in progress in a stream.
const WINDOW: usize = 32;
/// Number of batches before the measured ones.
const WARM_UP: u32 = 50;

/// One task that both ends carry out together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// A ping-pong with messages of `size` bytes.
    PingPong { size: usize, count: u32 },
    /// A stream from the requester to the responder, which answers at the end of the stream.
    Stream { size: usize, count: u32 },
    /// Each end receives and sends a batch, and meanwhile computes for `work_us`.
    Batches { work_us: f64, count: u32 },
}

/// Results of an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Reading {
    /// Half a round trip.
    Latency {
        size: usize,
        us: f64,
    },
    /// Message bytes divided by the time until the answer.
    Bandwidth {
        size: usize,
        mbit: f64,
    },
    Batches(Batches),
    /// Description of the counters of all tasks.
    Described(String),
}

/// Results of one end for batches. Times are in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Batches {
    pub(super) work_us: f64,
    /// Median time of a call of each function.
    pub(super) send: f64,
    pub(super) receive: f64,
    pub(super) wait: f64,
    /// Processor time of the process per batch, without the computing: the calls, and the NIC's thread if there is one.
    pub(super) processor: f64,
    /// The program's computing in percent of the elapsed time.
    pub(super) share: f64,
    /// Message bytes in both directions divided by the elapsed time.
    pub(super) mbit: f64,
}

/// Carries out the tasks.
pub(super) fn play(
    carrier: &mut Carrier,
    role: Role,
    tasks: &[Task],
) -> anyhow::Result<Vec<Reading>> {
    let mut readings = Vec::new();
    let pace = Pace::take();
    let work = Work::measured();
    for task in tasks {
        readings.extend(match *task {
            Task::PingPong { size, count } => ping_pong(carrier, role, size, count)?,
            Task::Stream { size, count } => stream(carrier, role, size, count)?,
            Task::Batches { work_us, count } => {
                let batches = batches(carrier, &pace, &work, work_us, count)?;
                (role == Role::Requester).then_some(Reading::Batches(batches))
            }
        });
    }
    readings.push(Reading::Described(carrier.describe()));
    Ok(readings)
}

fn ping_pong(
    carrier: &mut Carrier,
    role: Role,
    size: usize,
    count: u32,
) -> anyhow::Result<Option<Reading>> {
    ensure!(size <= MOST, "cannot send {size} bytes: at most {MOST} bytes fit in a message");
    let warm_up = (count / 10).clamp(1, 200);
    let mut begun = Instant::now();
    carrier.post_receive(size)?;
    for round in 0..warm_up + count {
        if round == warm_up {
            begun = Instant::now();
        }
        if role == Role::Requester {
            carrier.post_send(size)?;
            carrier.wait_receive()?;
            carrier.post_receive(size)?;
        } else {
            carrier.wait_receive()?;
            carrier.post_receive(size)?;
            carrier.post_send(size)?;
        }
        carrier.wait_sends(1)?;
    }
    let us = begun.elapsed().as_secs_f64() * 1e6 / f64::from(count) / 2.0;
    // The receive that is still posted takes the final message.
    carrier.post_send(size)?;
    carrier.wait_all()?;
    Ok((role == Role::Requester).then_some(Reading::Latency { size, us }))
}

fn stream(
    carrier: &mut Carrier,
    role: Role,
    size: usize,
    count: u32,
) -> anyhow::Result<Option<Reading>> {
    let warm_up = (count / 10).clamp(1, 200);
    let mut mbit = 0.0;
    for count in [warm_up, count] {
        if role == Role::Responder {
            let ahead = count.min(WINDOW as u32);
            (0..ahead).try_for_each(|_| carrier.post_receive(size))?;
            // All receives are posted now.
            carrier.post_send(1)?;
            for number in 0..count {
                carrier.wait_receive()?;
                if number + ahead < count {
                    carrier.post_receive(size)?;
                }
            }
            carrier.post_send(1)?;
            carrier.wait_all()?;
            continue;
        }
        carrier.post_receive(1)?;
        carrier.wait_receive()?;
        carrier.post_receive(1)?;
        let begun = Instant::now();
        for _ in 0..count {
            carrier.post_send(size)?;
            carrier.wait_sends(WINDOW)?;
        }
        carrier.wait_all()?;
        let bits = size as f64 * f64::from(count) * 8.0;
        mbit = bits / begun.elapsed().as_secs_f64() / 1e6;
    }
    Ok((role == Role::Requester).then_some(Reading::Bandwidth { size, mbit }))
}

fn batches(
    carrier: &mut Carrier,
    pace: &Pace,
    work: &Work,
    work_us: f64,
    count: u32,
) -> anyhow::Result<Batches> {
    let (mut sends, mut receives, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    let steps = work.steps(work_us);
    let mut begun = CpuTime::start()?;
    for round in 0..WARM_UP + count {
        if round == WARM_UP {
            begun = CpuTime::start()?;
        }
        let is_counted = round >= WARM_UP;
        for _ in 0..BATCH {
            let before = ticks();
            carrier.post_receive(BATCH_BYTES)?;
            receives.extend(is_counted.then(|| pace.call_ns((ticks() - before) as f64)));
        }
        for _ in 0..BATCH {
            let before = ticks();
            carrier.post_send(BATCH_BYTES)?;
            sends.extend(is_counted.then(|| pace.call_ns((ticks() - before) as f64)));
        }
        compute(steps);
        let before = ticks();
        carrier.wait_all()?;
        waits.extend(is_counted.then(|| pace.call_ns((ticks() - before) as f64)));
    }
    let (passed, spent) = (begun.passed().as_secs_f64(), begun.spent()?.as_secs_f64());
    let us = |times: Vec<f64>| median(times).unwrap_or(f64::NAN) / 1e3;
    let worked = work_us * f64::from(count) / 1e6;
    Ok(Batches {
        work_us,
        send: us(sends),
        receive: us(receives),
        wait: us(waits),
        processor: (spent - worked).max(0.0) * 1e6 / f64::from(count),
        share: 100.0 * worked / passed,
        mbit: (2 * BATCH * BATCH_BYTES) as f64 * 8.0 * f64::from(count) / passed / 1e6,
    })
}

/// Duration of a computing step on this processor.
struct Work {
    step_ns: f64,
}

impl Work {
    /// Measures several times and takes the shortest time, because another process may have used the processor.
    fn measured() -> Self {
        const STEPS: u64 = 200_000;
        let look = || {
            let begun = Instant::now();
            compute(STEPS);
            begun.elapsed()
        };
        let best = (0..20).map(|_| look()).min().unwrap_or(Duration::ZERO);
        Self { step_ns: (best.as_nanos() as f64 / STEPS as f64).max(1e-3) }
    }

    fn steps(&self, us: f64) -> u64 {
        (us * 1e3 / self.step_ns) as u64
    }
}

/// Computes something in registers.
fn compute(steps: u64) {
    let mut state = 1u64;
    for _ in 0..steps {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(state);
}
