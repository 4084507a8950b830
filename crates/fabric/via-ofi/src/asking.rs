//! Finds out whether nodes in doubt still exist.

use crate::doubts::Found;
use crate::fabric::Fabric;
use crate::nodes::Node;
use crate::presence::{Presence, how, local_presence};
use sovia_softnic::World;

impl Fabric {
    /// Starts to check each node that accepts no messages.
    pub(crate) fn ask(&mut self) {
        let nodes = self.nodes.get_mut();
        let stuck: Vec<_> = self.endpoint.stuck().filter_map(|peer| nodes.of_peer(peer)).collect();
        stuck.into_iter().for_each(|node| self.doubt(node, false));
        self.doubts.try_again();
    }

    /// Starts to check a node. After an error of the provider (`has_failed`), the node counts as lost unless the check
    /// finds it.
    pub(crate) fn doubt(&mut self, node: Node, has_failed: bool) {
        self.doubts.add(node, has_failed);
    }

    /// Returns the nodes that are gone according to a check that does not wait.
    pub(crate) fn known_gone(&mut self, nodes: &[Node]) -> Vec<Node> {
        let all = self.nodes.get_mut();
        let is_gone = |node: &Node| {
            local_presence(all.address(*node), all.since(*node)) == Some(Presence::Gone)
        };
        nodes.iter().copied().filter(is_gone).collect()
    }

    /// Returns the results of finished checks. Starts further threads, up to the limit.
    pub(crate) fn found(world: &mut World<Fabric>) -> Vec<(Node, Found)> {
        let fabric = world.medium_mut();
        if fabric.doubts.is_empty() {
            return Vec::new();
        }
        let answers = fabric.answers.take().into_iter();
        let found = answers.filter_map(|(node, presence)| {
            fabric.doubts.answered(node, presence).map(|found| (node, found))
        });
        let found = found.collect();
        if fabric.doubts.is_new() {
            let peers = world.peers();
            world.medium_mut().begin_asking(&peers);
        }
        found
    }

    fn begin_asking(&mut self, peers: &[Node]) {
        let ask = how(self.endpoint.name());
        while let Some((node, is_stranger)) = self.doubts.next(peers) {
            let nodes = self.nodes.get_mut();
            let (address, since) = (Box::<[u8]>::from(nodes.address(node)), nodes.since(node));
            let answers = self.answers.clone();
            let asking = move || answers.give(node, ask(&address, since));
            if std::thread::Builder::new().name("libfabric-ask".into()).spawn(asking).is_err() {
                return;
            }
            self.doubts.begun(node, is_stranger);
        }
    }
}
