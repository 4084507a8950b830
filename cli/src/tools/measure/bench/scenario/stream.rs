//! A stream of messages of one size in one direction, acknowledged at the end.
//!
//! The stream consists of rounds: a number of messages, then one message back. Rounds are so long that the message back
//! does not count. They are so short that many fit into the time, and an interrupted round is not the median. A slow
//! link has shorter rounds: emulated NICs move some thousand messages a second.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{GO, STOP};
use crate::measure::bench::link::Link;

/// Size of the receiver's buffer in bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// Largest numbers of bytes and of messages in a round. A round has at least one message.
const ROUND_BYTES_MAX: usize = 32 << 20;
const ROUND_MESSAGES_MAX: usize = 1 << 16;
/// Number of halvings from the longest round to the shortest.
const HALVINGS_MAX: u32 = 8;
/// Smallest number of rounds, regardless of the time.
const ROUNDS_MIN: u64 = 3;

/// Returns the number of messages in a round.
fn round_messages(size: usize, halvings: u32) -> usize {
    let longest = (ROUND_BYTES_MAX / size).clamp(1, ROUND_MESSAGES_MAX);
    longest.checked_shr(halvings).unwrap_or(0).max(1)
}

/// Runs rounds from the shortest to the longest, or to the first that takes longer than `most`. Returns the number of
/// halvings of the last one.
fn warm_up(
    size: usize,
    most: Duration,
    mut round: impl FnMut(u32) -> anyhow::Result<Duration>,
) -> anyhow::Result<u32> {
    let mut halvings = round_messages(size, 0).ilog2().min(HALVINGS_MAX);
    loop {
        // A round counts as long only if it is long twice, because one may have been interrupted.
        let is_long = round(halvings)? > most && round(halvings)? > most;
        if is_long || halvings == 0 {
            return Ok(halvings);
        }
        halvings -= 1;
    }
}

/// Streams messages of `size` bytes for about `time`. Returns bytes a second, the median of the rounds.
pub(in crate::measure::bench) fn send(
    link: &mut impl Link,
    size: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let mut message = vec![GO; size];
    let mut answer = vec![0; size];
    let mut round = |halvings: u32| -> anyhow::Result<Duration> {
        let begin = Instant::now();
        // The first byte of a round tells the receiver the round's length.
        message[0] = GO + halvings as u8;
        for _ in 0..round_messages(size, halvings) {
            link.send(&message)?;
        }
        link.receive_all(&mut answer)?;
        Ok(begin.elapsed())
    };
    // The next longer round would take about the whole time.
    let halvings = warm_up(size, time / 2, &mut round)?;
    let start = Instant::now();
    let mut rounds = Histogram::<u64>::new(3)?;
    while start.elapsed() < time || rounds.len() < ROUNDS_MIN {
        rounds.record(round(halvings)?.as_nanos() as u64)?;
    }
    message[0] = STOP;
    link.send(&message)?;
    link.receive_all(&mut answer)?;
    let bytes = (round_messages(size, halvings) * size) as f64;
    Ok(bytes / (rounds.value_at_quantile(0.5) as f64 / 1e9))
}

/// Receives and acknowledges rounds, until a message says STOP.
pub(in crate::measure::bench) fn receive(link: &mut impl Link, size: usize) -> anyhow::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let answer = vec![GO; size];
    loop {
        // The sender sends nothing after a round before its acknowledgement.
        let first = link.receive(&mut buffer)?;
        // The message that says STOP is a round of its own.
        let halvings = buffer[0].checked_sub(GO);
        let messages = halvings.map_or(1, |halvings| round_messages(size, halvings.into()));
        let mut left = messages * size - first;
        while left > 0 {
            left -= link.receive(&mut buffer[..left.min(BUFFER_BYTES)])?;
        }
        link.send(&answer)?;
        if halvings.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A socket that counts the messages that it sends.
    struct Counting {
        stream: UnixStream,
        messages: usize,
    }

    impl Link for Counting {
        fn send(&mut self, data: &[u8]) -> io::Result<()> {
            self.messages += 1;
            self.stream.write_all(data)
        }

        fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
            match self.stream.read(data)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                len => Ok(len),
            }
        }
    }

    /// Returns the numbers of messages that each end has sent, in a stream whose rounds each take longer than the given
    /// time.
    fn sent_over_a_slow_link(size: usize) -> (usize, usize) {
        let (near, far) = UnixStream::pair().unwrap();
        let mut near = Counting { stream: near, messages: 0 };
        let receiver = std::thread::spawn(move || {
            let mut far = Counting { stream: far, messages: 0 };
            receive(&mut far, size).unwrap();
            far.messages
        });
        assert!(send(&mut near, size, Duration::ZERO).unwrap() > 0.0);
        (near.messages, receiver.join().unwrap())
    }

    #[test]
    fn a_slow_link_has_short_rounds() {
        // Two rounds to warm up, three measured ones, and the message that says STOP.
        for (size, messages) in [(1, 256), (64, 256), (96 << 10, 1), (1 << 20, 1), (40 << 20, 1)] {
            let rounds = 2 + ROUNDS_MIN as usize;
            assert_eq!(sent_over_a_slow_link(size), (rounds * messages + 1, rounds + 1), "{size}");
        }
    }

    #[test]
    fn rounds_grow_up_to_the_longest() {
        let mut halved = Vec::new();
        let mut round = |halvings| {
            halved.push(halvings);
            Ok(Duration::ZERO)
        };
        assert_eq!(warm_up(64, Duration::ZERO, &mut round).unwrap(), 0);
        assert_eq!(warm_up(8 << 20, Duration::ZERO, &mut round).unwrap(), 0);
        assert_eq!(warm_up(1 << 30, Duration::ZERO, &mut round).unwrap(), 0);
        assert_eq!(halved, [8, 7, 6, 5, 4, 3, 2, 1, 0, 2, 1, 0, 0]);
    }

    #[test]
    fn one_interruption_does_not_make_rounds_short() {
        let mut times = [9, 9, 0, 9, 0, 9, 9].map(Duration::from_secs).into_iter();
        let most = Duration::from_secs(1);
        let found = warm_up(64, most, |_| Ok(times.next().unwrap())).unwrap();
        assert_eq!((found, times.len()), (8, 5));
        let found = warm_up(64, most, |_| Ok(times.next().unwrap())).unwrap();
        assert_eq!((found, times.len()), (6, 0));
    }
}
