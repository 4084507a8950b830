//! A stream of messages of one size in one direction, acknowledged at the end.
//!
//! It goes in rounds: a fixed number of messages, then one back. The rounds are long enough for
//! that one not to count, and short enough for many in the time there is, so that one that was
//! interrupted is not the median.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{GO, STOP};
use crate::bench::link::Link;

/// The receiver's buffer, in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// A round has at most this many bytes, and at most that many messages, but at least one.
const ROUND_BYTES_MAX: usize = 32 << 20;
const ROUND_MESSAGES_MAX: usize = 1 << 16;
/// So many rounds there are at least, however long they take.
const ROUNDS_MIN: u64 = 3;

fn round_messages(size: usize) -> usize {
    (ROUND_BYTES_MAX / size).clamp(1, ROUND_MESSAGES_MAX)
}

/// Streams messages of `size` bytes for about `time`; returns bytes a second, the median over
/// the rounds.
pub(in crate::bench) fn send(
    link: &mut impl Link,
    size: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let mut message = vec![GO; size];
    let mut answer = vec![0; size];
    let messages = round_messages(size);
    let mut round = |link: &mut _| -> anyhow::Result<()> {
        for _ in 0..messages {
            Link::send(link, &message)?;
        }
        Ok(Link::receive_all(link, &mut answer)?)
    };
    // The first round warms up.
    round(link)?;
    let start = Instant::now();
    let mut rounds = Histogram::<u64>::new(3)?;
    while start.elapsed() < time || rounds.len() < ROUNDS_MIN {
        let begin = Instant::now();
        round(link)?;
        rounds.record(begin.elapsed().as_nanos() as u64)?;
    }
    message[0] = STOP;
    link.send(&message)?;
    link.receive_all(&mut answer)?;
    Ok((messages * size) as f64 / (rounds.value_at_quantile(0.5) as f64 / 1e9))
}

/// Receives and acknowledges, up to the message that says stop.
pub(in crate::bench) fn receive(link: &mut impl Link, size: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let answer = vec![GO; size];
    loop {
        let round = round_messages(size) * size;
        let first = link.receive(&mut buffer[..round.min(BUFFER_BYTES)])?;
        // The message that says stop is a round of its own.
        let is_last = buffer[0] == STOP;
        let mut left = if is_last { size } else { round } - first;
        while left > 0 {
            left -= link.receive(&mut buffer[..left.min(BUFFER_BYTES)])?;
        }
        link.send(&answer)?;
        if is_last {
            return Ok(());
        }
    }
}
