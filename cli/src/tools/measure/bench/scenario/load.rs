//! A stream with a limited rate, and its cost in processor time.

use std::time::Duration;

use anyhow::Context;

use super::{GO, STOP};
use crate::measure::bench::cpu_time::{CpuTime, percent};
use crate::measure::bench::link::Link;
use crate::measure::bench::pace::Pace;

/// Size of the receiver's buffer in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// Length of the header before each part: GO or STOP, and the number of bytes that follow.
const HEADER_BYTES: usize = 16;

/// Offers `bytes_per_second` in messages of `size` for about `time`. Returns the processor time of both ends, in
/// percent of the elapsed time.
pub(in crate::measure::bench) fn offer(
    link: &mut impl Link,
    size: usize,
    bytes_per_second: f64,
    time: Duration,
) -> anyhow::Result<f64> {
    let messages = ((bytes_per_second * time.as_secs_f64()) as usize / size).max(1);
    let message = vec![GO; size];
    link.send(&header(GO, (messages * size) as u64))?;
    let cpu = CpuTime::start()?;
    Pace { size, bytes_per_second }.keep(Duration::MAX, messages, || link.send(&message))?;
    let mut theirs = [0; 8];
    link.receive_all(&mut theirs)?;
    let both = cpu.spent()? + Duration::from_nanos(u64::from_le_bytes(theirs));
    Ok(percent(both, cpu.passed()))
}

/// Tells the receiver that no part follows.
pub(in crate::measure::bench) fn end(link: &mut impl Link) -> anyhow::Result<()> {
    Ok(link.send(&header(STOP, 0))?)
}

/// Receives part after part, and reports the processor time of each.
pub(in crate::measure::bench) fn take(link: &mut impl Link, size: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES.max(size)];
    loop {
        let mut header = [0; HEADER_BYTES];
        link.receive_all(&mut header)?;
        if header[0] == STOP {
            return Ok(());
        }
        let (_, len) = header.split_last_chunk().context("the header has no length")?;
        let mut left = usize::try_from(u64::from_le_bytes(*len))?;
        let cpu = CpuTime::start()?;
        while left > 0 {
            let most = left.min(buffer.len());
            left -= link.receive(&mut buffer[..most])?;
        }
        link.send(&(cpu.spent()?.as_nanos() as u64).to_le_bytes())?;
    }
}

fn header(word: u8, len: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = word;
    header[HEADER_BYTES - 8..].copy_from_slice(&len.to_le_bytes());
    header
}
