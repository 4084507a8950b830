//! Nodes that may be gone: decides which nodes threads check, in which order, and evaluates the results.
//!
//! A check may take long, so threads do it. Any sender can claim any address, so the number of threads is bounded.
//! Further nodes in doubt wait for their turn. Nodes with which this NIC has connections or requests come first.

use crate::nodes::Node;
use crate::presence::Presence;
use sovia_sys::call::RawFd;
use sovia_sys::{Fd, call};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of threads that check nodes.
const THREADS: usize = 64;
/// Largest number of these threads for unrelated nodes, which have neither connections nor requests with this NIC.
const THREADS_FOR_STRANGERS: usize = 4;

/// A node that may be gone.
#[derive(Debug)]
struct Doubt {
    /// Set after an error of the provider. Then the node is lost unless the check finds it.
    has_failed: bool,
    /// Set if a message from the node has arrived since the check began.
    is_heard: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits,
    /// A thread is checking the node.
    Asked {
        is_stranger: bool,
    },
}

/// All nodes that may be gone.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    nodes: BTreeMap<Node, Doubt>,
    /// Nodes that may still wait, the longest waiting node first.
    waiting: VecDeque<Node>,
    /// True if more threads may be started than at the last attempt.
    is_new: bool,
    /// Number of running threads, and the number of those that check unrelated nodes.
    running: [usize; 2],
}

/// Results of the threads, and a descriptor that is readable while there are results.
#[derive(Debug)]
pub(crate) struct Answers {
    all: Mutex<Vec<(Node, Presence)>>,
    bell: Fd,
}

impl Answers {
    /// Makes an empty list.
    ///
    /// # Errors
    /// The kernel's error, if the process cannot get another descriptor.
    pub(crate) fn new() -> sovia_sys::Result<Arc<Answers>> {
        let bell = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        Ok(Arc::new(Answers { all: Mutex::default(), bell }))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.bell.raw()
    }

    pub(crate) fn give(&self, node: Node, presence: Presence) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push((node, presence));
        // The write fails only if the counter would exceed 2^64 - 2.
        let _ = call::write(self.bell.raw(), &1u64.to_ne_bytes());
    }

    /// Takes all results.
    pub(crate) fn take(&self) -> Vec<(Node, Presence)> {
        core::mem::take(&mut *self.all.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the descriptor unreadable until the next result.
    pub(crate) fn hush(&self) {
        let _ = call::read(self.bell.raw(), &mut [0; 8]);
    }
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The node is there, but the provider has reported an error of a message to it.
    There,
    /// No endpoint is at the node's address at the moment.
    Absent,
    /// The node is gone.
    Lost,
}

impl Doubts {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Allows another attempt to start threads for the waiting nodes.
    pub(crate) fn try_again(&mut self) {
        self.is_new |= !self.waiting.is_empty();
    }

    /// Returns true if more threads may be started than at the last call.
    pub(crate) fn is_new(&mut self) -> bool {
        core::mem::take(&mut self.is_new)
    }

    /// Adds a node in doubt.
    pub(crate) fn add(&mut self, node: Node, has_failed: bool) {
        if let Some(doubt) = self.nodes.get_mut(&node) {
            doubt.has_failed |= has_failed;
            return;
        }
        self.nodes.insert(node, Doubt { has_failed, is_heard: false, stage: Stage::Waits });
        self.waiting.push_back(node);
        self.is_new = true;
    }

    /// Records a message from a node. A check that finds no endpoint there was too early. A later doubt begins a new
    /// check.
    pub(crate) fn heard(&mut self, node: Node) {
        if let Some(doubt) = self.nodes.get_mut(&node) {
            doubt.is_heard = true;
        }
    }

    fn waits(&self, node: Node) -> bool {
        self.nodes.get(&node).is_some_and(|doubt| doubt.stage == Stage::Waits)
    }

    /// Returns the next node for a thread to check, and true if the node is unrelated, which means not in `peers`.
    pub(crate) fn next(&mut self, peers: &[Node]) -> Option<(Node, bool)> {
        let [all, strangers] = self.running;
        if all >= THREADS {
            return None;
        }
        if let Some(&peer) = peers.iter().find(|&&peer| self.waits(peer)) {
            return Some((peer, false));
        }
        if strangers >= THREADS_FOR_STRANGERS {
            return None;
        }
        while let Some(&node) = self.waiting.front() {
            if self.waits(node) {
                return Some((node, true));
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Records that a thread begins to check a node.
    pub(crate) fn begun(&mut self, node: Node, is_stranger: bool) {
        if let Some(doubt) = self.nodes.get_mut(&node) {
            (doubt.stage, doubt.is_heard) = (Stage::Asked { is_stranger }, false);
            self.running[0] += 1;
            self.running[1] += usize::from(is_stranger);
        }
    }

    /// Records the result of a thread's check. Returns what the engine must do about the node, if anything.
    pub(crate) fn answered(&mut self, node: Node, presence: Presence) -> Option<Found> {
        let doubt = self.nodes.remove(&node)?;
        if let Stage::Asked { is_stranger } = doubt.stage {
            self.running[0] -= 1;
            self.running[1] -= usize::from(is_stranger);
            self.is_new = true;
        }
        match presence {
            _ if doubt.is_heard => doubt.has_failed.then_some(Found::There),
            Presence::There => doubt.has_failed.then_some(Found::There),
            Presence::Absent => Some(Found::Absent),
            Presence::Gone => Some(Found::Lost),
            Presence::Unknown => doubt.has_failed.then_some(Found::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;

    #[test]
    fn threads_are_bounded_and_peers_come_before_unknown_nodes() {
        let mut nodes = Nodes::new(b"own!", true);
        let mut node = |n: u32| nodes.find(&n.to_le_bytes()).unwrap();
        let all: Vec<_> = (0..1000).map(&mut node).collect();
        let mut asked = Doubts::default();
        all.iter().for_each(|&node| asked.add(node, false));
        let begin = |asked: &mut Doubts, peers: &[Node]| {
            let mut begun = Vec::new();
            while let Some((node, is_stranger)) = asked.next(peers) {
                asked.begun(node, is_stranger);
                begun.push(node);
            }
            begun
        };
        assert_eq!(begin(&mut asked, &[]), all[..THREADS_FOR_STRANGERS]);
        // Unrelated nodes leave threads for peers.
        assert_eq!(begin(&mut asked, &all[900..902]), all[900..902]);
        assert_eq!(begin(&mut asked, &all[500..]).len(), THREADS - THREADS_FOR_STRANGERS - 2);
        assert!(begin(&mut asked, &all).is_empty(), "as many as there may be");
        assert_eq!(asked.answered(all[0], Presence::Unknown), None);
        assert_eq!(asked.answered(all[900], Presence::Absent), Some(Found::Absent));
        assert_eq!(begin(&mut asked, &[]), all[4..5]);
        assert_eq!(begin(&mut asked, &all[700..701]), all[700..701]);
        // Each node gets its turn.
        let mut done = 2;
        loop {
            let running = asked.nodes.iter().filter(|(_, it)| it.stage != Stage::Waits);
            let Some(node) = running.map(|(&node, _)| node).next() else { break };
            assert_eq!(asked.answered(node, Presence::Gone), Some(Found::Lost));
            done += 1;
            begin(&mut asked, &[]);
        }
        assert_eq!((done, asked.running, asked.nodes.len()), (1000, [0, 0], 0));
    }

    #[test]
    fn node_queried_twice_has_failed_if_either_query_reports_a_failure() {
        let mut nodes = Nodes::new(b"own!", true);
        let node = nodes.find(b"one!").unwrap();
        for (failed, found) in [(false, None), (true, Some(Found::There))] {
            let mut asked = Doubts::default();
            asked.add(node, failed);
            asked.add(node, false);
            assert_eq!(asked.next(&[node]), Some((node, false)));
            asked.begun(node, false);
            assert_eq!(asked.answered(node, Presence::There), found);
            assert_eq!(asked.answered(node, Presence::There), None, "it is in doubt no more");
        }
    }

    #[test]
    fn a_node_from_which_something_has_come_meanwhile_is_there() {
        let node = Nodes::new(b"own!", true).find(b"one!").unwrap();
        for (heard_before, heard, found) in
            [(true, false, Some(Found::Absent)), (false, true, Some(Found::There))]
        {
            let mut asked = Doubts::default();
            asked.add(node, true);
            if heard_before {
                asked.heard(node);
            }
            asked.begun(node, false);
            if heard {
                asked.heard(node);
            }
            assert_eq!(asked.answered(node, Presence::Absent), found);
        }
    }

    #[test]
    fn the_descriptor_is_readable_while_an_answer_is_there() {
        let answers = Answers::new().unwrap();
        let is_readable = || {
            let mut fds = [sovia_sys::poll::PollFd {
                fd: answers.descriptor(),
                events: libc::POLLIN,
                revents: 0,
            }];
            sovia_sys::poll::ppoll(&mut fds, Some(0), None).unwrap();
            fds[0].revents != 0
        };
        let node = Nodes::new(b"own!", true).find(b"one!").unwrap();
        assert!(!is_readable());
        answers.give(node, Presence::There);
        assert!(is_readable());
        answers.hush();
        assert!(!is_readable());
        assert_eq!((answers.take(), answers.take()), (vec![(node, Presence::There)], Vec::new()));
    }
}
