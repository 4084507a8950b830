//! Credit: the number of messages for which a peer has posted receives.
//!
//! The receiver counts all receives that it has posted since the beginning. The count travels as immediate data of a
//! message without bytes. The receiver sends one after the VI is connected, then one after each [`STEP`] receives
//! used and posted again. The sender sends at most as many messages as the last count says. Both counts wrap at 2^32.
//!
//! The sender needs posted receives for the counts. The receiver sends one count for each step of the allowance, plus
//! the first one. So fewer than [`TOLD_MAX`] counts are on their way at a time.

/// Number of receives for packets posted at a time.
pub(crate) const RECEIVES: usize = 512;
/// Number of receives used up before the receiver sends a new count.
const STEP: u32 = 64;
/// Number of receives for counts that the sender posts.
pub(crate) const TOLD_MAX: usize = 16;

const _: () = assert!(RECEIVES / (STEP as usize) + 1 < TOLD_MAX);

/// The sender's side: messages sent, and messages allowed by the peer's last count.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    sent: u32,
    allowed: u32,
}

/// Error for a count that a correct peer cannot have sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Impossible;

impl Allowance {
    /// Returns true if the peer has a receive for another message.
    pub(crate) fn is_there(&self) -> bool {
        self.sent != self.allowed
    }

    /// Records that a message has been sent.
    pub(crate) fn use_one(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// Applies a count received from the peer.
    pub(crate) fn told(&mut self, count: u32) -> Result<(), Impossible> {
        let more = count.wrapping_sub(self.allowed);
        let ahead = count.wrapping_sub(self.sent);
        if more as usize > RECEIVES || ahead as usize > RECEIVES {
            return Err(Impossible);
        }
        self.allowed = count;
        Ok(())
    }
}

/// The receiver's side: receives posted, and the count last sent to the peer.
#[derive(Debug)]
pub(crate) struct Posted {
    count: u32,
    told: u32,
}

impl Posted {
    /// Begins with `receives` posted receives, before the first count is sent.
    pub(crate) fn new(receives: usize) -> Posted {
        Posted { count: receives as u32, told: 0 }
    }

    /// Records that a receive has been used and posted again.
    pub(crate) fn again(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    /// Returns the count if the receiver must send it now.
    pub(crate) fn due(&self) -> Option<u32> {
        (self.count.wrapping_sub(self.told) >= STEP).then_some(self.count)
    }

    /// Records that `count` has been sent.
    pub(crate) fn tell(&mut self, count: u32) {
        self.told = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Debug, Clone, Copy)]
    enum Turn {
        Send,
        Receive,
        Hear,
    }

    /// Both ends and the messages between them. The counts can begin anywhere.
    struct Ends {
        allowance: Allowance,
        posted: Posted,
        packets: usize,
        told: VecDeque<u32>,
    }

    impl Ends {
        fn from(start: u32) -> Ends {
            let allowance = Allowance { sent: start, allowed: start };
            let count = start.wrapping_add(RECEIVES as u32);
            let mut ends = Ends {
                allowance,
                posted: Posted { count, told: start },
                packets: 0,
                told: VecDeque::new(),
            };
            ends.tell();
            ends
        }

        fn tell(&mut self) {
            if let Some(count) = self.posted.due() {
                self.posted.tell(count);
                self.told.push_back(count);
            }
        }

        fn turn(&mut self, turn: Turn) -> bool {
            match turn {
                Turn::Send if self.allowance.is_there() => {
                    self.allowance.use_one();
                    self.packets += 1;
                }
                Turn::Receive if self.packets > 0 => {
                    self.packets -= 1;
                    self.posted.again();
                    self.tell();
                }
                Turn::Hear if !self.told.is_empty() => {
                    let count = self.told.pop_front().unwrap();
                    assert_eq!(self.allowance.told(count), Ok(()));
                }
                _ => return false,
            }
            assert!(self.packets <= RECEIVES, "a message without a receive");
            assert!(self.told.len() < TOLD_MAX, "a count without a receive");
            true
        }
    }

    proptest! {
        /// Each message meets a receive, and the flow never stops, in any order of events.
        #[test]
        fn every_message_meets_a_receive(
            start: u32,
            turns in proptest::collection::vec((prop_oneof![Just(Turn::Send), Just(Turn::Receive), Just(Turn::Hear)], 1..700usize), 1..60),
        ) {
            let mut ends = Ends::from(start);
            for (turn, times) in turns {
                for _ in 0..times {
                    if !ends.turn(turn) {
                        break;
                    }
                }
            }
            // After all messages on their way have arrived, the sender may send again.
            while ends.turn(Turn::Receive) || ends.turn(Turn::Hear) {}
            prop_assert!(ends.turn(Turn::Send));
        }
    }

    #[test]
    fn count_that_takes_back_or_leaps_is_impossible() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.told(RECEIVES as u32 + 1), Err(Impossible));
        assert_eq!(allowance.told(100), Ok(()));
        assert_eq!(allowance.told(99), Err(Impossible));
        assert_eq!(allowance.told(100), Ok(()), "the same again is no more");
        assert_eq!(allowance.told(RECEIVES as u32 + 1), Err(Impossible), "of which none is used");
    }
}
