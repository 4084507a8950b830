//! Received connection requests, and the remote ends of connections that programs have requested.
//!
//! A message that follows a request names only the request, not the program. A late duplicate of a refused request
//! must not count as a new request. So the switch remembers requests, up to a limit for each program and a limit for
//! refused ones. The switch forgets settled requests first.

use sovia_link::wire::{Answer, EndId, Meeting, Word};
use sovia_port::Address;
use std::collections::{HashMap, VecDeque};

/// Maximum number of requests remembered for each program, and of refused ones. The first also limits the remote ends
/// remembered for each program.
const OF_ONE: usize = 1 << 13;
const REFUSED: usize = 1 << 14;
/// Maximum number of requests checked to find one that can be forgotten.
const LOOKS: usize = 64;

/// A request: its sender and its name.
type Key = (Address, EndId);

/// State of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// No program took it.
    Refused,
    /// This program has it. The flag is true if a connection was made, false if not; `None` while the request is
    /// open.
    Of(u16, Option<bool>),
}

/// The requests, and the remote ends of connections that programs have requested.
#[derive(Debug, Default)]
pub(super) struct Requests {
    known: HashMap<Key, Request>,
    of: HashMap<u16, VecDeque<Key>>,
    refused: VecDeque<Key>,
    far: HashMap<u16, VecDeque<Key>>,
}

impl Requests {
    pub(super) fn find(&self, key: Key) -> Option<Request> {
        self.known.get(&key).copied()
    }

    /// Records that a program has a request. Returns false if the program has too many open requests.
    pub(super) fn add(&mut self, key: Key, program: u16) -> bool {
        let of = self.of.entry(program).or_default();
        if of.len() >= OF_ONE {
            let is_open = |key| matches!(self.known.get(key), Some(Request::Of(_, None)));
            let Some(at) = of.iter().take(LOOKS).position(|key| !is_open(key)) else {
                // Check others next time.
                of.rotate_left(LOOKS);
                return false;
            };
            of.remove(at).map(|old| self.known.remove(&old));
        }
        of.push_back(key);
        self.known.insert(key, Request::Of(program, None));
        true
    }

    /// Records that no program took a request.
    pub(super) fn refuse(&mut self, key: Key) {
        if self.refused.len() >= REFUSED {
            self.refused.pop_front().map(|old| self.known.remove(&old));
        }
        self.refused.push_back(key);
        self.known.insert(key, Request::Refused);
    }

    /// Records a request's result. Returns the program that has the request.
    pub(super) fn settle(&mut self, key: Key, connected: bool) -> Option<u16> {
        let Some(Request::Of(program, settled)) = self.known.get_mut(&key) else { return None };
        *settled = Some(connected);
        Some(*program)
    }

    /// Records that the remote end `far` has accepted a program's request.
    pub(super) fn accepted(&mut self, program: u16, far: Key) {
        let ends = self.far.entry(program).or_default();
        // The answer is a duplicate.
        if ends.iter().rev().take(LOOKS).any(|it| *it == far) {
            return;
        }
        if ends.len() >= OF_ONE {
            ends.pop_front();
        }
        ends.push_back(far);
    }

    /// Removes a program. Returns the messages for remote ends that may wait for it. Remote ends ignore messages
    /// about connections that have already ended.
    pub(super) fn forget(&mut self, program: u16) -> Vec<(Address, Word)> {
        let mut words = Vec::new();
        for key in self.of.remove(&program).into_iter().flatten() {
            let (at, request) = key;
            let settled = match self.known.remove(&key) {
                Some(Request::Of(_, settled)) => settled,
                _ => continue,
            };
            if settled.is_none() {
                let answer = Answer::Rejected;
                words.push((at, Word::Meeting(Meeting::Answer { request, answer })));
            }
            if settled != Some(false) {
                words.push((at, Word::Gone { to: request }));
            }
        }
        let far = self.far.remove(&program).into_iter().flatten();
        words.extend(far.map(|(at, to)| (at, Word::Gone { to })));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address::Mac([2, 0, 0, 0, 0, 1]);
    const OTHER: Address = Address::Mac([2, 0, 0, 0, 0, 2]);

    fn key(n: usize) -> Key {
        (AT, EndId(n as u64 + 1))
    }

    #[test]
    fn request_is_one_of_its_sender() {
        let mut requests = Requests::default();
        assert!(requests.add(key(1), 7));
        assert_eq!(requests.find(key(1)), Some(Request::Of(7, None)));
        assert_eq!(requests.find((OTHER, key(1).1)), None);
        assert_eq!(requests.settle((OTHER, key(1).1), true), None);
        assert_eq!(requests.settle(key(1), true), Some(7));
        requests.refuse(key(2));
        assert_eq!(requests.settle(key(2), true), None);
    }

    #[test]
    fn settled_requests_are_forgotten_and_open_ones_are_not() {
        let mut requests = Requests::default();
        for n in 0..OF_ONE {
            assert!(requests.add(key(n), 7));
        }
        assert!(!requests.add(key(OF_ONE), 7), "all are open");
        assert!(requests.add(key(OF_ONE), 8), "another program has room of its own");
        // This request is not among the first ones checked.
        requests.settle(key(LOOKS + 3), false);
        assert!(requests.add(key(OF_ONE + 1), 7));
        assert_eq!(requests.find(key(LOOKS + 3)), None);
        for n in 0..2 * REFUSED {
            requests.refuse((OTHER, EndId(n as u64)));
        }
        assert_eq!(requests.known.len(), OF_ONE + 1 + REFUSED);
    }

    #[test]
    fn what_others_wait_for_is_answered_when_a_program_is_gone() {
        let mut requests = Requests::default();
        (0..3).for_each(|n| assert!(requests.add(key(n), 7)));
        requests.settle(key(1), true);
        requests.settle(key(2), false);
        requests.accepted(7, (OTHER, EndId(99)));
        requests.accepted(7, (OTHER, EndId(99)));
        requests.accepted(8, (OTHER, EndId(98)));
        let (rejected, gone) =
            (Meeting::Answer { request: key(0).1, answer: Answer::Rejected }, |n| Word::Gone {
                to: key(n).1,
            });
        let words = requests.forget(7);
        assert_eq!(
            words,
            [
                (AT, Word::Meeting(rejected)),
                (AT, gone(0)),
                (AT, gone(1)),
                (OTHER, Word::Gone { to: EndId(99) })
            ]
        );
        assert!(requests.known.is_empty());
    }
}
