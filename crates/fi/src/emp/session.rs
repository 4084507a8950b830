//! The order of a peer's messages.
//!
//! A peer numbers its messages. EMP's receives are met in that order, but a message of many frames of which one was lost is
//! complete later than those behind it. Those wait here.
//!
//! A process that begins anew at a peer's address has another session. Its first message says so.

use super::room::Mark;

/// Messages that may wait: as many as a peer has under way at most.
const EARLY_MAX: usize = super::SENDS;

/// What a peer has sent so far.
#[derive(Debug)]
pub(super) struct Session<M> {
    session: Option<u32>,
    next: u32,
    early: Vec<(Mark, M)>,
}

/// A message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is its turn.
    Now,
    /// One before it has not come yet.
    Early,
    /// No honest peer sends it.
    Nowhere,
}

impl<M> Default for Session<M> {
    fn default() -> Self {
        Session { session: None, next: 0, early: Vec::new() }
    }
}

impl<M> Session<M> {
    /// Which turn a message has. `begins`: it is one with which a session begins.
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
        // It may be one of a session whose beginning has not come yet.
        match self.early.len() < EARLY_MAX {
            true => Place::Early,
            false => Place::Nowhere,
        }
    }

    /// Whether a message may be the peer's last one, though some before it never come.
    pub(super) fn may_end(&self, mark: Mark) -> bool {
        self.session.is_none_or(|session| session == mark.session)
    }

    /// Keeps a message that is early.
    pub(super) fn keep(&mut self, mark: Mark, message: M) {
        self.early.push((mark, message));
    }

    /// A message that was early, if it is its turn now.
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

    /// What is taken when these come, in that order: session, number.
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
