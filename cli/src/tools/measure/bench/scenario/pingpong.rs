//! Ping-pong: a message there and back, again and again.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{GO, STOP};
use crate::measure::bench::link::Link;

/// Times of round trips, in nanoseconds.
#[derive(Debug)]
pub(in crate::measure::bench) struct Trip {
    /// Median over batches of the mean of a batch. Reading the clock for each trip would take a large part of the
    /// shortest trips.
    pub(in crate::measure::bench) median_ns: f64,
    /// Percentiles of trips timed one by one.
    pub(in crate::measure::bench) p99_ns: f64,
    pub(in crate::measure::bench) p999_ns: f64,
}

/// Duration of a batch: long enough that reading the clock costs nothing, and short enough that there are many batches
/// besides an interrupted one.
const BATCH: Duration = Duration::from_micros(50);
const BATCH_TRIPS_MAX: u64 = 256;
/// Smallest numbers of batches, and of trips timed one by one, regardless of the time. If other programs use the
/// processors, an interrupted one must not be the median.
const BATCHES_MIN: u64 = 50;
const SINGLES_MIN: u64 = 500;
/// Number of round trips before the measurement. Connections move from TCP to a VI after the first few.
const WARM_UP_TRIPS: u64 = 200;

/// Measures round trips of `size` bytes for about `time`, then ends the responder.
pub(in crate::measure::bench) fn request(
    link: &mut impl Link,
    size: usize,
    time: Duration,
) -> anyhow::Result<Trip> {
    let mut message = vec![GO; size];
    let mut answer = vec![0; size];
    let mut trip = |message: &[u8]| {
        link.send(message)?;
        link.receive_all(&mut answer)
    };

    let start = Instant::now();
    let mut warm_up = 0;
    while warm_up < WARM_UP_TRIPS || start.elapsed() < time / 10 {
        trip(&message)?;
        warm_up += 1;
    }
    let mean = start.elapsed().as_nanos() as u64 / warm_up;
    let batch = (BATCH.as_nanos() as u64 / mean.max(1)).clamp(1, BATCH_TRIPS_MAX);

    let start = Instant::now();
    let mut batches = Histogram::<u64>::new(3)?;
    while start.elapsed() < time / 2 || batches.len() < BATCHES_MIN {
        let begin = Instant::now();
        for _ in 0..batch {
            trip(&message)?;
        }
        batches.record(begin.elapsed().as_nanos() as u64)?;
    }

    let mut single = Histogram::<u64>::new(3)?;
    let start = Instant::now();
    let mut begin = start;
    while begin.duration_since(start) < time * 4 / 10 || single.len() < SINGLES_MIN {
        trip(&message)?;
        let end = Instant::now();
        single.record((end - begin).as_nanos() as u64)?;
        begin = end;
    }

    message[0] = STOP;
    trip(&message)?;
    Ok(Trip {
        median_ns: batches.value_at_quantile(0.5) as f64 / batch as f64,
        p99_ns: single.value_at_quantile(0.99) as f64,
        p999_ns: single.value_at_quantile(0.999) as f64,
    })
}

/// Returns each message, until a message says STOP.
pub(in crate::measure::bench) fn respond(link: &mut impl Link, size: usize) -> anyhow::Result<()> {
    let mut message = vec![GO; size];
    while message[0] != STOP {
        link.receive_all(&mut message)?;
        link.send(&message)?;
    }
    Ok(())
}
