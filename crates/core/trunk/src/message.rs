//! Layout of a trunk's message: the frames one after the other, followed by their lengths.
//!
//! Frames form runs. All frames of a run have the same length, except the last frame, which may be shorter. A port
//! that joins frames delivers the same runs, so the link handles both alike. After the frames, the message has two
//! little-endian words of 32 bits for each run:
//!
//! | word | |
//! |---|---|
//! | 0 | bytes of a frame, at least one |
//! | 1 | bytes of the run, at least as many |
//!
//! The message's last word is the number of runs. [`ASKS`] is added if the other end must answer at once. A message
//! without frames and without [`ASKS`] is invalid: an acknowledgement that travels alone has no bytes at all.

/// Maximum number of runs in a message.
const RUNS: usize = 16;
/// Bytes of one run's two length words, and of the message's last word.
const RUN: usize = 8;
const LAST: usize = 4;
/// Flag in the last word: the other end must acknowledge this message at once.
const ASKS: u32 = 1 << 16;

/// Returns the length of the longest frame that fits into a message of `message` bytes.
pub(crate) const fn longest_frame(message: usize) -> usize {
    message - RUN - LAST
}

/// State of an outgoing message while frames are added.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    /// Bytes of frames so far.
    len: usize,
    runs: Vec<(usize, usize)>,
}

impl Filling {
    /// Appends frames from `next` to the message in `bytes`.
    ///
    /// `next` writes a frame of at most `longest` bytes and returns its length; `None` if there are no more frames.
    /// Returns true if the message is full, false if `next` has returned `None`.
    pub(crate) fn fill(
        &mut self,
        bytes: &mut [u8],
        longest: usize,
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> bool {
        loop {
            let behind = RUN * (self.runs.len() + 1) + LAST;
            let room = bytes.len().saturating_sub(self.len + behind);
            if room < longest || self.runs.len() == RUNS {
                return true;
            }
            let Some(len) = next(&mut bytes[self.len..][..longest]) else { return false };
            self.add(len.min(longest));
        }
    }

    fn add(&mut self, len: usize) {
        self.len += len;
        match self.runs.last_mut() {
            _ if len == 0 => {}
            // A run ends with the first frame that is shorter than the frames before it.
            Some((frame, run)) if len <= *frame && *run % *frame == 0 => *run += len,
            _ => self.runs.push((len, len)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the lengths after the frames and returns the message's length.
    pub(crate) fn end(self, bytes: &mut [u8], asks: bool) -> usize {
        let count = self.runs.len() as u32 | if asks { ASKS } else { 0 };
        let lengths = self.runs.iter().flat_map(|&(frame, run)| [frame as u32, run as u32]);
        let mut at = self.len;
        for word in lengths.chain([count]) {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
            at += 4;
        }
        at
    }
}

/// A received message, already checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    frames: &'a [u8],
    runs: &'a [u8],
    pub(crate) asks: bool,
}

/// Error for bytes that are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

fn word(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | usize::from(byte))
}

impl<'a> Message<'a> {
    /// Parses a message and checks all of its lengths.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (rest, last) = bytes.split_last_chunk::<LAST>().ok_or(Malformed)?;
        let last = u32::from_le_bytes(*last);
        let (count, asks) = ((last & !ASKS) as usize, last & ASKS != 0);
        if count > RUNS || count == 0 && !asks {
            return Err(Malformed);
        }
        let at = rest.len().checked_sub(count * RUN).ok_or(Malformed)?;
        let (frames, runs) = rest.split_at(at);
        let message = Message { frames, runs, asks };
        let mut sum = 0;
        for (frame, run) in message.lengths() {
            if frame == 0 || run < frame {
                return Err(Malformed);
            }
            sum += run;
        }
        if sum == frames.len() { Ok(message) } else { Err(Malformed) }
    }

    fn lengths(&self) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.runs.chunks_exact(RUN).map(|run| (word(&run[..4]), word(&run[4..])))
    }

    /// Returns each run's bytes and the length of a frame in it.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&'a [u8], usize)> + 'a {
        let (frames, mut at) = (self.frames, 0);
        self.lengths().map(move |(frame, run)| {
            let begin = at;
            at += run;
            (&frames[begin..at], frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs `frames` into messages of at most `room` bytes.
    fn messages(frames: &[Vec<u8>], room: usize, longest: usize) -> Vec<Vec<u8>> {
        let mut left = frames.iter();
        let mut messages = Vec::new();
        loop {
            let (mut bytes, mut filling) = (vec![0; room], Filling::default());
            let is_full = filling.fill(&mut bytes, longest, &mut |room| {
                let frame = left.next()?;
                room[..frame.len()].copy_from_slice(frame);
                Some(frame.len())
            });
            if filling.is_empty() {
                return messages;
            }
            let len = filling.end(&mut bytes, false);
            bytes.truncate(len);
            messages.push(bytes);
            if !is_full {
                return messages;
            }
        }
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            lengths in proptest::collection::vec(prop_oneof![Just(100_usize), Just(64), 1..=100_usize], 0..200),
            room in 112..2000_usize,
        ) {
            let frames: Vec<Vec<u8>> =
                lengths.iter().enumerate().map(|(n, &len)| vec![n as u8; len]).collect();
            let mut came = Vec::new();
            for message in messages(&frames, room, 100) {
                let message = Message::parse(&message).expect("it is one");
                prop_assert!(!message.asks);
                for (run, frame) in message.runs() {
                    came.extend(run.chunks(frame).map(<[u8]>::to_vec));
                }
            }
            prop_assert_eq!(came, frames);
        }

        #[test]
        fn whatever_comes_is_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64), count in 0..18_u32) {
            let mut bytes = bytes;
            bytes.extend(count.to_le_bytes());
            if let Ok(message) = Message::parse(&bytes) {
                let total: usize = message.runs().map(|(run, frame)| { assert!(frame > 0); run.len() }).sum();
                prop_assert_eq!(total + RUN * count as usize + LAST, bytes.len());
            }
        }
    }

    #[test]
    fn message_without_frames_asks_or_is_none() {
        let mut bytes = [0; 16];
        let len = Filling::default().end(&mut bytes, true);
        assert!(Message::parse(&bytes[..len]).is_ok_and(|it| it.asks && it.runs().count() == 0));
        let len = Filling::default().end(&mut bytes, false);
        assert!(Message::parse(&bytes[..len]).is_err());
        assert!(Message::parse(&[]).is_err());
    }

    #[test]
    fn longest_frame_fills_a_message_alone() {
        let longest = longest_frame(2000);
        let frames = [vec![1; longest], vec![2; 1], vec![3; longest]];
        let messages = messages(&frames, 2000, longest);
        assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [2000, 13, 2000]);
    }

    #[test]
    fn runs_that_are_not_what_the_message_has_are_refused() {
        let with = |words: &[u32]| {
            let mut bytes = vec![7; 10];
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            Message::parse(&bytes).is_ok()
        };
        assert!(with(&[4, 10, 1]));
        assert!(with(&[4, 4, 6, 6, 2]));
        assert!(!with(&[4, 9, 1]), "a byte of no frame");
        assert!(!with(&[4, 11, 1]), "a byte more than there is");
        assert!(!with(&[11, 10, 1]), "a frame longer than its run");
        assert!(!with(&[0, 10, 1]), "frames without bytes");
        assert!(!with(&[4, 10, 2]), "a run that is not there");
        assert!(!with(&[4, 10, 1 | 1 << 17]), "something of which nothing is known");
    }
}
