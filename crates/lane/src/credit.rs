//! How many messages a peer has receives for.
//!
//! The end that receives counts the receives that it has posted since the beginning, and tells the count in messages without
//! bytes, as their immediate data: first when the VI is connected, then whenever [`STEP`] of them have been used and posted
//! again. The end that sends has sent at most as many messages as it was told. Both counts go round at 2^32.
//!
//! The messages that tell need receives, too: at the end that sends. It learns a count by taking the message, so no more than
//! one for each step of what it was allowed, and the first, can be under way: fewer than [`TOLD_MAX`].

/// Receives that are posted at a time.
pub(crate) const RECEIVES: usize = 512;
/// Receives that are used up before the other end is told of new ones.
const STEP: u32 = 64;
/// Receives for what is told.
pub(crate) const TOLD_MAX: usize = 16;

const _: () = assert!(RECEIVES / (STEP as usize) + 1 < TOLD_MAX);

/// At the end that sends.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    sent: u32,
    allowed: u32,
}

/// A count that an honest peer cannot have told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Impossible;

impl Allowance {
    /// Whether there is a receive for another message.
    pub(crate) fn is_there(&self) -> bool {
        self.sent != self.allowed
    }

    /// A message has been sent.
    pub(crate) fn use_one(&mut self) {
        self.sent = self.sent.wrapping_add(1);
    }

    /// The peer tells its count.
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

/// At the end that receives.
#[derive(Debug)]
pub(crate) struct Posted {
    count: u32,
    told: u32,
}

impl Posted {
    /// So many receives are posted, and nothing has been told.
    pub(crate) fn new(receives: usize) -> Posted {
        Posted { count: receives as u32, told: 0 }
    }

    /// A receive has been used and posted again.
    pub(crate) fn again(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    /// The count, if it is to be told now.
    pub(crate) fn due(&self) -> Option<u32> {
        (self.count.wrapping_sub(self.told) >= STEP).then_some(self.count)
    }

    /// That count has been told.
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

    /// Two ends with the messages between them, from any count on.
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
        /// Each message meets a receive, and no order of events stops the flow.
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
            // When all that is under way has come, there is leave to send.
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
