//! Nodes that may be gone: which are asked about, and what has been found.

use crate::fabric::Fabric;
use crate::nodes::Node;
use crate::presence::{Presence, local_presence, presence};
use std::sync::PoisonError;

impl Fabric {
    /// Has it found out of each node that takes nothing whether it is there.
    pub(crate) fn ask(&mut self) {
        let nodes = self.nodes.get_mut();
        let stuck: Vec<_> = self.endpoint.stuck().filter_map(|peer| nodes.of_peer(peer)).collect();
        stuck.into_iter().for_each(|node| self.doubt(node, false));
    }

    /// Has a thread find out whether a node is there. If the provider has told an error, the node is lost unless it is found.
    pub(crate) fn doubt(&mut self, node: Node, has_failed: bool) {
        if let Some(failed) = self.asked.nodes.get_mut(&node) {
            *failed |= has_failed;
            return;
        }
        let address: Box<[u8]> = self.nodes.get_mut().address(node).into();
        let answers = self.asked.answers.clone();
        let answer = move |presence| {
            answers.lock().unwrap_or_else(PoisonError::into_inner).push((node, presence));
        };
        let ask = {
            let answer = answer.clone();
            move || answer(presence(&address))
        };
        self.asked.nodes.insert(node, has_failed);
        if std::thread::Builder::new().name("libfabric-ask".into()).spawn(ask).is_err() {
            answer(Presence::Unknown);
        }
    }

    /// Those of some nodes that are known to be gone without asking long.
    pub(crate) fn known_gone(&mut self, nodes: &[Node]) -> Vec<Node> {
        let all = self.nodes.get_mut();
        let is_gone = |node: &Node| local_presence(all.address(*node)) == Some(Presence::Gone);
        nodes.iter().copied().filter(is_gone).collect()
    }

    /// The nodes that are lost by what such threads have found.
    pub(crate) fn answers(&mut self) -> Vec<Node> {
        if self.asked.nodes.is_empty() {
            return Vec::new();
        }
        let mut answers = self.asked.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |(node, presence)| {
            let has_failed = self.asked.nodes.remove(&node).unwrap_or(false);
            let is_lost = match presence {
                Presence::There => false,
                Presence::Gone => true,
                Presence::Unknown => has_failed,
            };
            is_lost.then_some(node)
        };
        answers.drain(..).filter_map(lost).collect()
    }
}
