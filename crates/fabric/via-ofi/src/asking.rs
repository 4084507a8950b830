//! Finding out of nodes in doubt whether they are there.

use crate::doubts::Found;
use crate::fabric::Fabric;
use crate::nodes::Node;
use crate::presence::{Presence, how, local_presence};
use sovia_softnic::World;

impl Fabric {
    /// Has it found out of each node that takes nothing whether it is there.
    pub(crate) fn ask(&mut self) {
        let nodes = self.nodes.get_mut();
        let stuck: Vec<_> = self.endpoint.stuck().filter_map(|peer| nodes.of_peer(peer)).collect();
        stuck.into_iter().for_each(|node| self.doubt(node, false));
        self.doubts.try_again();
    }

    /// Has it found out whether a node is there. If the provider has told an error, the node is lost unless it is found.
    pub(crate) fn doubt(&mut self, node: Node, has_failed: bool) {
        self.doubts.add(node, has_failed);
    }

    /// Those of some nodes that are known to be gone without asking long.
    pub(crate) fn known_gone(&mut self, nodes: &[Node]) -> Vec<Node> {
        let all = self.nodes.get_mut();
        let is_gone = |node: &Node| {
            local_presence(all.address(*node), all.since(*node)) == Some(Presence::Gone)
        };
        nodes.iter().copied().filter(is_gone).collect()
    }

    /// What threads have found of nodes that were in doubt. Starts further threads, as far as there may be more.
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
