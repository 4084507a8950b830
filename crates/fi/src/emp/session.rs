//! Restores the order of a peer's messages.
//!
//! A peer numbers its messages. EMP matches messages to receives in this order. But a message of many frames
//! that lost a frame completes later than the messages after it. The later messages wait here.
//!
//! A process that starts at the address of an earlier peer has another session. The first message of a session marks
//! its beginning.

use super::room::Mark;

/// Number of messages that may wait: the most that a peer can have under way.
const EARLY_MAX: usize = super::SENDS;

/// The state of a peer's messages.
#[derive(Debug)]
pub(super) struct Session<M> {
    session: Option<u32>,
    next: u32,
    early: Vec<(Mark, M)>,
}

/// Position of a message that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The next message in order.
    Now,
    /// An earlier message has not arrived yet.
    Early,
    /// Only a corrupt peer sends this message.
    Nowhere,
}

impl<M> Default for Session<M> {
    fn default() -> Self {
        Session { session: None, next: 0, early: Vec::new() }
    }
}

impl<M> Session<M> {
    /// Returns the position of a message. `begins`: the message is the first of a session.
    #[inline]
    pub(super) fn place(&mut self, mark: Mark, begins: bool) -> Place {
        if self.session == Some(mark.session) {
            if mark.number == self.next && !begins {
                self.next = self.next.wrapping_add(1);
                return Place::Now;
            }
            let ahead = mark.number.wrapping_sub(self.next) as usize;
            let is_known = self.early.iter().any(|(early, _)| *early == mark);
            return match !begins && ahead <= EARLY_MAX && !is_known {
                true => Place::Early,
                false => Place::Nowhere,
            };
        }
        if begins {
            if mark.number != 0 {
                return Place::Nowhere;
            }
            (self.session, self.next) = (Some(mark.session), 1);
            self.early.retain(|(early, _)| early.session == mark.session);
            return Place::Now;
        }
        // The message may belong to a session whose first message has not arrived yet.
        match self.early.len() < EARLY_MAX {
            true => Place::Early,
            false => Place::Nowhere,
        }
    }

    /// Returns true if a message may be the peer's last, although some earlier messages never arrive.
    pub(super) fn may_end(&self, mark: Mark) -> bool {
        self.session.is_none_or(|session| session == mark.session)
    }

    /// Stores an early message.
    pub(super) fn keep(&mut self, mark: Mark, message: M) {
        self.early.push((mark, message));
    }

    /// Returns a stored message if it is the next in order.
    #[inline]
    pub(super) fn next(&mut self) -> Option<M> {
        if self.early.is_empty() {
            return None;
        }
        let is_it = |mark: &Mark| Some(mark.session) == self.session && mark.number == self.next;
        let at = self.early.iter().position(|(mark, _)| is_it(mark))?;
        self.next = self.next.wrapping_add(1);
        Some(self.early.swap_remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the messages that a session delivers when `come` arrive in this order. A message is (session, number).
    fn taken(come: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let mut session = Session::default();
        let mut taken = Vec::new();
        for &(name, number) in come {
            let mark = Mark { session: name, number };
            match session.place(mark, number == 0) {
                Place::Now => taken.push((name, number)),
                Place::Early => session.keep(mark, (name, number)),
                Place::Nowhere => {}
            }
            while let Some(early) = session.next() {
                taken.push(early);
            }
        }
        taken
    }

    #[test]
    fn what_a_process_before_has_sent_is_dropped() {
        let come = [(1, 0), (1, 2), (2, 1), (2, 0), (1, 1), (2, 2)];
        assert_eq!(taken(&come), [(1, 0), (2, 0), (2, 1), (2, 2)]);
    }

    #[test]
    fn a_message_that_comes_twice_is_taken_once() {
        assert_eq!(taken(&[(1, 0), (1, 2), (1, 2), (1, 0), (1, 1), (1, 1)]).len(), 3);
    }

    #[test]
    fn no_more_wait_than_an_honest_peer_sends() {
        let mut session = Session::default();
        for number in 1..1000 {
            let mark = Mark { session: 9, number };
            if session.place(mark, false) == Place::Early {
                session.keep(mark, ());
            }
        }
        assert_eq!(session.early.len(), EARLY_MAX);
    }

    proptest! {
        #[test]
        fn messages_are_taken_in_the_order_of_their_numbers(order in Just((0..60).collect::<Vec<u32>>()).prop_shuffle()) {
            let come: Vec<_> = order.iter().map(|number| (7, *number)).collect();
            let expected: Vec<_> = (0..60).map(|number| (7, number)).collect();
            prop_assert_eq!(taken(&come), expected);
        }
    }
}
