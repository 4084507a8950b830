//! The sending end of a stream.

use super::rtt::{Rtt, Timing};
use sovia_simnet::Time;
use std::collections::VecDeque;

/// Frames to send, and frames whose acknowledgement is awaited.
#[derive(Debug)]
pub(crate) struct Tx<F> {
    timing: Timing,
    window: usize,
    rtt: Rtt,
    /// Frames not acknowledged; the first has the number `base`, and the first `sent` of them
    /// have been sent.
    frames: VecDeque<Entry<F>>,
    base: u64,
    sent: usize,
    /// Those before this place are to be sent again.
    again: usize,
    /// Frames before this number are not sent again because of repeated acknowledgements.
    recovered: u64,
    repeats: u32,
    tries: u32,
    deadline: Option<Time>,
}

#[derive(Debug)]
struct Entry<F> {
    frame: F,
    sent_at: Time,
    sendings: u32,
}

/// What to do when the deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing, yet.
    Patience,
    /// There is something to send again.
    Again,
    /// The far side does not answer any more.
    Hopeless,
}

/// Acknowledgements that repeat themselves this often tell of a loss.
const REPEATS: u32 = 3;

impl<F: Clone> Tx<F> {
    /// An empty stream of which `window` frames may be on their way.
    pub(crate) fn new(timing: Timing, window: usize) -> Tx<F> {
        Tx {
            timing,
            window: window.max(1),
            rtt: Rtt::new(),
            frames: VecDeque::new(),
            base: 0,
            sent: 0,
            again: 0,
            recovered: 0,
            repeats: 0,
            tries: 0,
            deadline: None,
        }
    }

    /// Appends a frame and says its number.
    pub(crate) fn push(&mut self, frame: F) -> u64 {
        self.frames.push_back(Entry { frame, sent_at: Time::ZERO, sendings: 0 });
        self.base + self.frames.len() as u64 - 1
    }

    /// Frames that have not been acknowledged.
    pub(crate) fn backlog(&self) -> usize {
        self.frames.len()
    }

    /// Appends the last frame, instead of those that have never been sent. It goes out at once,
    /// window or not: the far side may listen to nothing else any more.
    pub(crate) fn finish(&mut self, frame: F) {
        self.frames.truncate(self.sent);
        self.push(frame);
        self.window += 1;
    }

    /// The next frame to send, with its number.
    pub(crate) fn next(&mut self, now: Time) -> Option<(u64, F)> {
        let place = if self.again > 0 {
            // From the oldest on: `again` counts down to the places already repeated.
            let place = self.frames.iter().take(self.again).position(|e| e.sent_at < now);
            match place {
                Some(place) => place,
                None => {
                    self.again = 0;
                    return self.next(now);
                }
            }
        } else if self.sent < self.frames.len().min(self.window) {
            self.sent += 1;
            self.sent - 1
        } else {
            return None;
        };
        let entry = &mut self.frames[place];
        entry.sent_at = now;
        entry.sendings += 1;
        if self.deadline.is_none() {
            self.deadline = Some(now.after(self.rtt.wait(&self.timing, self.tries)));
        }
        Some((self.base + place as u64, entry.frame.clone()))
    }

    /// Everything before number `ack` has been received.
    pub(crate) fn acknowledged(&mut self, ack: u64, now: Time) {
        let count = ack.saturating_sub(self.base).min(self.sent as u64) as usize;
        if count == 0 {
            self.repeated(ack);
            return;
        }
        for entry in self.frames.drain(..count) {
            if entry.sendings == 1 {
                self.rtt.measured(now.since(entry.sent_at));
            }
        }
        self.base += count as u64;
        self.sent -= count;
        self.again = self.again.saturating_sub(count);
        self.tries = 0;
        self.repeats = 0;
        let waits = self.sent > 0;
        self.deadline = waits.then(|| now.after(self.rtt.wait(&self.timing, 0)));
    }

    /// The same again: packets arrive, but the oldest frame does not.
    fn repeated(&mut self, ack: u64) {
        if ack != self.base || self.sent == 0 || self.base < self.recovered {
            return;
        }
        self.repeats += 1;
        if self.repeats == REPEATS {
            self.again = self.again.max(1);
            self.recovered = self.base + 1;
        }
    }

    /// When something is to be done if no acknowledgement comes.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Time) -> Verdict {
        match self.deadline {
            Some(deadline) if deadline <= now => {}
            _ => return Verdict::Patience,
        }
        if self.tries == self.timing.tries {
            return Verdict::Hopeless;
        }
        self.tries += 1;
        self.again = self.sent;
        self.repeats = 0;
        self.deadline = Some(now.after(self.rtt.wait(&self.timing, self.tries)));
        Verdict::Again
    }
}
