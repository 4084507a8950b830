//! A stream that offers so many bytes a second and no more, and what it costs in processor time.
//!
//! The sender follows a timetable: it sends what is due, then sleeps until the next message is. A
//! timetable in steps of less than [`STEP`] would measure the sleeping; so small messages go in
//! bursts, as they would from a program that gets its work from elsewhere.

use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use super::{GO, STOP};
use crate::bench::link::Link;

/// Between two bursts, at least.
const STEP: Duration = Duration::from_micros(500);
/// The receiver's buffer, in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// A header before each part: whether to go on, and how many bytes follow.
const HEADER_BYTES: usize = 16;

/// Offers `bytes_per_second` in messages of `size` for about `time`; returns the processor time of
/// both ends, in percent of the time that has passed.
pub(in crate::bench) fn offer(
    link: &mut impl Link,
    size: usize,
    bytes_per_second: f64,
    time: Duration,
) -> anyhow::Result<f64> {
    let messages = ((bytes_per_second * time.as_secs_f64()) as usize / size).max(1);
    let message = vec![GO; size];
    link.send(&header(GO, (messages * size) as u64))?;
    let (start, before) = (Instant::now(), cpu_time()?);
    let mut sent = 0;
    while sent < messages {
        let passed = start.elapsed();
        let due = (passed.as_secs_f64() * bytes_per_second) as usize / size;
        while sent < due.min(messages) {
            link.send(&message)?;
            sent += 1;
        }
        let next = Duration::from_secs_f64((sent + 1) as f64 * size as f64 / bytes_per_second);
        std::thread::sleep(next.max(passed + STEP).saturating_sub(start.elapsed()));
    }
    let mut theirs = [0; 8];
    link.receive_all(&mut theirs)?;
    let cpu = cpu_time()? - before + Duration::from_nanos(u64::from_le_bytes(theirs));
    Ok(100.0 * cpu.as_secs_f64() / start.elapsed().as_secs_f64())
}

/// Tells the receiver that there is no more.
pub(in crate::bench) fn end(link: &mut impl Link) -> anyhow::Result<()> {
    Ok(link.send(&header(STOP, 0))?)
}

/// Receives part after part and says of each what it has cost.
pub(in crate::bench) fn take(link: &mut impl Link, size: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES.max(size)];
    loop {
        let mut header = [0; HEADER_BYTES];
        link.receive_all(&mut header)?;
        if header[0] == STOP {
            return Ok(());
        }
        let (_, len) = header.split_last_chunk().context("a header holds a length")?;
        let mut left = usize::try_from(u64::from_le_bytes(*len))?;
        let before = cpu_time()?;
        while left > 0 {
            let most = left.min(buffer.len());
            left -= link.receive(&mut buffer[..most])?;
        }
        let cpu = cpu_time()? - before;
        link.send(&(cpu.as_nanos() as u64).to_le_bytes())?;
    }
}

fn header(word: u8, len: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = word;
    header[HEADER_BYTES - 8..].copy_from_slice(&len.to_le_bytes());
    header
}

/// Processor time of this process, all its threads, in the program and in the kernel.
fn cpu_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}
