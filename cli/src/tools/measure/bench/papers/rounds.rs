//! Measures a point: the requester chooses the number of rounds, and both ends run them.
//!
//! A round is the operation that the scenario repeats. The duration of the first rounds decides the number of rounds.
//! An eighth of the rounds runs at a time. During that time only measured messages are exchanged, and no end yields its
//! processor. The requester reads the clock once in about 50 µs.

use std::time::{Duration, Instant};

use super::control::Control;
use crate::measure::bench::process::WATCHDOG_SECONDS;

/// Duration of a batch: long enough that reading the clock costs nothing, and short enough that there are many batches
/// besides an interrupted one.
const BATCH_NS: f64 = 50_000.0;
const BATCH_ROUNDS_MAX: f64 = 256.0;
/// Rounds that find out the duration of a round. The first ones include costs that occur only once, and the others show
/// the speed.
const FIRST_ROUNDS: u64 = 3;
const WARM_UP_ROUNDS_MAX: f64 = 300.0;
const ROUNDS_MIN: f64 = 5.0;
const ROUNDS_MAX: f64 = 5e6;
/// Number of pieces into which the measured rounds are divided.
const PIECES: f64 = 8.0;
/// Number of messages in a stream's first attempt. Factor by which the last attempt may be longer than requested.
/// Largest growth of the number of messages from one attempt to the next.
const STREAM_FIRST: u64 = 64;
const STREAM_MARGIN: f64 = 1.1;
const STREAM_TIMES_MAX: f64 = 32.0;
/// Tells the responder that the point is finished.
const OVER: u64 = 0;

/// Runs the requester's part. `round` runs one round. Returns the nanoseconds of a round: the median of the batches.
pub(super) fn lead(
    control: &mut Control,
    seconds: f64,
    mut round: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut play = |rounds: f64, batch: f64| -> anyhow::Result<Vec<f64>> {
        let (rounds, batch) = (rounds as u64, batch as u64);
        begin(control, rounds)?;
        let mut times = Vec::with_capacity((rounds / batch) as usize + 1);
        let mut left = rounds;
        while left > 0 {
            let now = left.min(batch);
            let start = Instant::now();
            for _ in 0..now {
                round()?;
            }
            // The mean of an incomplete batch is exact, except for the cost of reading the clock.
            times.push(start.elapsed().as_nanos() as f64 / now as f64);
            left -= now;
        }
        Ok(times)
    };
    let first = play(FIRST_ROUNDS as f64, 1.0)?;
    let mean = first.iter().copied().fold(f64::MAX, f64::min).max(1.0);
    let warm_up = (seconds * 1e8 / mean).clamp(1.0, WARM_UP_ROUNDS_MAX);
    let mean = middle(play(warm_up, warm_up)?).max(1.0);
    let rounds = (seconds * 1e9 / mean).clamp(ROUNDS_MIN, ROUNDS_MAX);
    let batch = (BATCH_NS / mean).clamp(1.0, BATCH_ROUNDS_MAX);
    // If rounds turn out longer than the first ones, there are fewer pieces.
    let piece = (rounds / PIECES).max(1.0);
    let (start, mut done, mut times) = (Instant::now(), 0.0, Vec::new());
    while done < ROUNDS_MIN || (done < rounds && start.elapsed().as_secs_f64() < 2.0 * seconds) {
        times.extend(play(piece, batch.min(piece))?);
        done += piece;
    }
    control.tell(OVER)?;
    Ok(middle(times))
}

/// Runs the requester's part of a stream. `play` sends messages and waits for their confirmation. Returns the
/// nanoseconds of a message in one attempt of at least `seconds`, confirmed once at its end. Shorter attempts before it
/// find out the number of messages.
pub(super) fn lead_stream(
    control: &mut Control,
    seconds: f64,
    mut play: impl FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut messages = STREAM_FIRST;
    loop {
        begin(control, messages)?;
        let start = Instant::now();
        play(messages)?;
        let passed = start.elapsed().as_secs_f64();
        if passed >= seconds {
            control.tell(OVER)?;
            return Ok(passed * 1e9 / messages as f64);
        }
        let times = (STREAM_MARGIN * seconds / passed.max(1e-9)).clamp(2.0, STREAM_TIMES_MAX);
        messages = (messages as f64 * times) as u64;
    }
}

/// Runs `rounds` rounds once at both ends.
pub(super) fn lead_once(
    control: &mut Control,
    rounds: u64,
    mut round: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    begin(control, rounds)?;
    (0..rounds).try_for_each(|_| round())?;
    control.tell(OVER)
}

fn begin(control: &mut Control, rounds: u64) -> anyhow::Result<()> {
    control.tell(rounds)?;
    // The responder is awake now, and will be in its loop when the first message comes.
    control.hear().map(drop)
}

/// Runs the responder's part of [`lead`] and [`lead_once`].
pub(super) fn follow(
    control: &mut Control,
    mut round: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    follow_stream(control, |rounds| (0..rounds).try_for_each(|_| round()))
}

/// Runs the responder's part of a stream. `play` receives messages and confirms them.
pub(super) fn follow_stream(
    control: &mut Control,
    mut play: impl FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let rounds = control.hear()?;
        if rounds == OVER {
            return Ok(());
        }
        control.tell(rounds)?;
        play(rounds)?;
    }
}

/// Returns the number of rounds of `mean_ns` that take `seconds`, within bounds.
pub(super) fn rounds_for(seconds: f64, mean_ns: f64, max: f64) -> u64 {
    (seconds * 1e9 / mean_ns.max(1.0)).clamp(ROUNDS_MIN, max) as u64
}

/// Returns the lifetime limit of a process with so many points. It is generous, because a round cannot be interrupted.
pub(super) fn limit(points: usize, seconds: f64) -> Duration {
    Duration::from_secs_f64(f64::from(WATCHDOG_SECONDS) + points as f64 * (4.0 * seconds + 0.15))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_play_the_same_rounds() {
        let (listener, name) = super::super::control::listen().unwrap();
        let responder = std::thread::spawn(move || {
            let mut control = Control::accept(&listener).unwrap();
            let mut rounds = 0;
            for _ in 0..2 {
                follow(&mut control, || {
                    rounds += 1;
                    Ok(())
                })
                .unwrap();
            }
            rounds
        });
        let mut control = Control::connect(&name).unwrap();
        let mut rounds = 0;
        let mut round = || {
            rounds += 1;
            std::thread::sleep(Duration::from_micros(100));
            Ok(())
        };
        let median = lead(&mut control, 0.005, &mut round).unwrap();
        assert!((100_000.0..100_000_000.0).contains(&median), "{median}");
        lead_once(&mut control, 7, &mut round).unwrap();
        assert!(rounds > 15);
        assert_eq!(responder.join().unwrap(), rounds);
    }

    #[test]
    fn a_stream_takes_its_time_and_is_confirmed_once() {
        let (listener, name) = super::super::control::listen().unwrap();
        let responder = std::thread::spawn(move || {
            let mut control = Control::accept(&listener).unwrap();
            let mut goes = Vec::new();
            let play = |messages| {
                goes.push(messages);
                Ok(())
            };
            follow_stream(&mut control, play).unwrap();
            goes
        });
        let mut control = Control::connect(&name).unwrap();
        let mut goes = Vec::new();
        let play = |messages: u64| {
            goes.push(messages);
            std::thread::sleep(Duration::from_micros(messages));
            Ok(())
        };
        let ns = lead_stream(&mut control, 0.01, play).unwrap();
        assert!(ns >= 1000.0, "{ns}");
        assert!(goes.is_sorted() && goes[0] == STREAM_FIRST, "{goes:?}");
        assert_eq!(responder.join().unwrap(), goes);
    }

    #[test]
    fn rounds_have_bounds() {
        assert_eq!(rounds_for(0.001, 1000.0, 1e4), 1000);
        assert_eq!(rounds_for(0.001, 1e9, 1e4), 5);
        assert_eq!(rounds_for(1.0, 0.0, 1e4), 10_000);
        assert_eq!(middle(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
