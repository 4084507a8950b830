//! Handles events of the endpoint and due work.

use crate::doubts::Found;
use crate::fabric::{Fabric, Own};
use crate::message::{Message, parse};
use crate::nodes::Node;
use sovia_ofi::Event;
use sovia_softnic::World;

impl Fabric {
    /// Passes the endpoint's events to the engine. Returns the number of events.
    pub(crate) fn arrivals(world: &mut World<Fabric>) -> usize {
        let fabric = world.medium_mut();
        let mut events = core::mem::take(&mut fabric.events);
        fabric.endpoint.poll(&mut events);
        let came = events.len();
        fabric.idle = if came == 0 { fabric.idle.saturating_add(1) } else { 0 };
        for event in events.drain(..) {
            match event {
                Event::Frame(lent) => {
                    Fabric::arrived(world, &lent);
                    world.medium_mut().endpoint.give_back(lent);
                }
                Event::Fetched(ticket, is_done) => world.medium_mut().fetched(ticket, is_done),
                Event::Failed(peer, _) => {
                    let node = world.medium_mut().nodes.get_mut().of_peer(peer);
                    if let Some(node) = node {
                        world.medium_mut().doubt(node, true);
                    }
                }
            }
        }
        world.medium_mut().events = events;
        came
    }

    fn arrived(world: &mut World<Fabric>, bytes: &[u8]) {
        let Some((number, message)) = parse(bytes) else {
            world.medium_mut().strange += 1;
            return;
        };
        let nodes = world.medium_mut().nodes.get_mut();
        let from = match message {
            Message::Frame { address: Some(address), .. } => nodes.introduced(address, number),
            _ => nodes.of_number(number),
        };
        let Some(from) = from.filter(|&from| from != Node::OWN) else {
            world.medium_mut().strange += 1;
            return;
        };
        if !world.medium().doubts.is_empty() {
            world.medium_mut().doubts.heard(from);
        }
        match message {
            Message::Frame { bytes: [], .. } => {}
            Message::Frame { bytes, .. } => world.frame(from, Node::OWN, bytes),
            Message::Whole(message) => world.parsed(from, Node::OWN, message.packet()),
            Message::Ready { to, from: peer, number, ticket } => {
                if !world.medium_mut().lends(from, ticket) {
                    world.ready(from, (to, peer), number, ticket);
                }
            }
            Message::Withdrawn { ticket } => world.medium_mut().withdrawn(from, ticket),
            Message::Lent { ticket, parts } => {
                let parts: Vec<_> = parts.iter().collect();
                world.medium_mut().offered(from, ticket, &parts);
            }
            Message::Returned { ticket } => world.medium_mut().returned(from, ticket),
        }
    }

    /// Does the next due work. Returns false if there is none.
    pub(crate) fn due(world: &mut World<Fabric>) -> bool {
        if let Some(own) = world.medium_mut().own.pop_front() {
            match own {
                Own::Frame(frame) => {
                    world.frame(Node::OWN, Node::OWN, &frame);
                    world.acknowledge();
                }
                Own::Ready(message, ticket) => {
                    let [to, from] = message.ends;
                    world.ready(Node::OWN, (to, from), message.number, ticket);
                }
                Own::Moved(id, is_done) => world.moved(id, is_done),
            }
            return true;
        }
        if let Some(timer) = world.medium_mut().clock.due() {
            world.timer(timer);
            return true;
        }
        let has_peers = world.has_peers() || !world.medium().moves.is_empty();
        let fabric = world.medium_mut();
        if (has_peers || fabric.alive.next().is_some())
            && let Some(now) = fabric.clock.seldom()
            && fabric.alive.is_due(has_peers, now)
        {
            fabric.ask();
            let peers = world.peers();
            let gone = world.medium_mut().known_gone(&peers);
            gone.into_iter().for_each(|node| Fabric::lost(world, node));
            let peers = world.peers();
            peers.into_iter().for_each(|node| world.medium_mut().greet(node));
            world.medium_mut().say_again();
            world.remind();
        }
        for (node, found) in Fabric::found(world) {
            match found {
                Found::There => world.node_found(node),
                Found::Absent => {
                    world.medium_mut().abandon(node);
                    world.node_absent(node);
                }
                Found::Lost => Fabric::lost(world, node),
            }
        }
        false
    }

    /// Handles the loss of a node: ends all operations with the node.
    fn lost(world: &mut World<Fabric>, node: Node) {
        world.medium_mut().abandon(node);
        world.node_lost(node);
    }
}
