//! Greetings: two stations learn each other's names, and notice another process at a peer's address.
//!
//! A frame names the process that it is for. A station learns this name by a hello, which the peer answers with a
//! welcome. The welcome repeats a number that was never used before, so an old welcome is not mistaken for a new one.
//! If anything else makes a station doubt a peer's name, the station only sends a hello.

use super::{Engine, Io};
use crate::Node;
use crate::active::Asking;
use crate::array::Status;
use crate::ids::{AHEAD, is_before};
use crate::wire::{Body, Greeting, Hello};
use sovia_link::wire::EndId;

impl<A: Copy + PartialEq> Engine<A> {
    /// Sends a hello to a peer, unless an earlier hello waits for its answer.
    pub(super) fn ask(&mut self, io: &mut Io<'_, A>, node: Node) {
        let at = self.activate(io.now, node);
        if self.active(at).asking.is_some() {
            return;
        }
        self.hellos += 1;
        // The lower bits name the peer.
        let nonce = self.hellos << 16 | u64::from(node);
        let again = io.now.after(self.config.timing.pause(0));
        self.active(at).asking = Some(Asking { nonce, tries: 0, again, other: None });
        self.say_hello(io, at);
        self.settle(at);
    }

    /// Like [`Engine::ask`], for another process that claims the peer's address. If processes choose their own keys,
    /// the other process has another key.
    fn ask_another(&mut self, io: &mut Io<'_, A>, node: Node, name: EndId, key: u64) {
        let at = self.activate(io.now, node);
        let is_asked = self.active(at).asking.is_some();
        self.ask(io, node);
        let at = self.activate(io.now, node);
        let takes_strangers = self.config.takes_strangers;
        let Some(asking) = self.active(at).asking.as_mut().filter(|_| takes_strangers) else {
            return;
        };
        let other = Some((name, key));
        if core::mem::replace(&mut asking.other, other) != other && is_asked {
            self.say_hello(io, at);
        }
        self.settle(at);
    }

    pub(super) fn say_hello(&mut self, io: &mut Io<'_, A>, at: u16) {
        let Some(asking) = self.active(at).asking else { return };
        let node = self.active(at).peer;
        let greeting = Greeting { nonce: asking.nonce, you: node, first: self.first_of(node) };
        let peer = self.peer_at(at);
        let (address, to) = (peer.address, peer.name);
        // The station does not know which of the two processes is alive, so it asks them alternately.
        let other = asking.other.filter(|_| asking.tries.is_multiple_of(2));
        let key = other.map_or(peer.key, |(_, key)| key);
        let hello = Hello { key, own_key: self.config.key, greeting };
        self.say_to(io, &address, to, Body::Hello(hello));
    }

    /// Returns the number of the first incomplete message to a node.
    pub(super) fn first_of(&self, node: Node) -> u32 {
        let peer = &self.peers[usize::from(node)];
        let active = self.actives.get(usize::from(peer.active));
        let oldest = active.and_then(|active| active.out.front());
        let oldest = oldest.and_then(|&index| self.outgoing[usize::from(index)]);
        oldest.map_or(peer.next_send, |message| message.id)
    }

    pub(super) fn hello(&mut self, io: &mut Io<'_, A>, address: &A, from: EndId, hello: &Hello) {
        if hello.key != self.config.key {
            self.counters.foreign += 1;
            return;
        }
        let known = self.peers.iter().position(|peer| peer.address == *address);
        let known = known.map(|node| node as Node);
        let node = match known {
            None if self.config.takes_strangers => self.another(io.array, *address, hello.own_key),
            known => known,
        };
        let Some(node) = node else {
            self.counters.foreign += 1;
            return;
        };
        let peer = &mut self.peers[usize::from(node)];
        if peer.name == EndId::NONE {
            (peer.name, peer.next_receive) = (from, hello.greeting.first);
        }
        if peer.name == from {
            peer.known_as = hello.greeting.you;
            self.skip_to(io, node, hello.greeting.first);
        } else {
            // Either this hello is old, or another process is now at the peer's address.
            self.ask_another(io, node, from, hello.own_key);
        }
        let greeting =
            Greeting { nonce: hello.greeting.nonce, you: node, first: self.first_of(node) };
        self.say_to(io, address, from, Body::Welcome(greeting));
    }

    pub(super) fn welcome(&mut self, io: &mut Io<'_, A>, from: EndId, greeting: &Greeting) {
        let node = greeting.nonce as Node;
        let active = self.peers.get(usize::from(node)).map(|peer| peer.active);
        let active = active.and_then(|at| Some((at, self.actives.get(usize::from(at))?)));
        let asked = active.filter(|(_, it)| it.asking.is_some_and(|it| it.nonce == greeting.nonce));
        let Some((at, _)) = asked else {
            self.counters.foreign += 1;
            return;
        };
        let active = self.active(at);
        active.heard = io.now;
        let other = active.asking.take().and_then(|asking| asking.other);
        if self.peers[usize::from(node)].name != from {
            self.replaced(io, at);
            let peer = &mut self.peers[usize::from(node)];
            (peer.name, peer.next_receive) = (from, greeting.first);
            if let Some((_, key)) = other.filter(|(name, _)| *name == from) {
                peer.key = key;
            }
        }
        let peer = &mut self.peers[usize::from(node)];
        (peer.known_as, peer.is_greeted) = (greeting.you, true);
        self.skip_to(io, node, greeting.first);
        self.ready(at);
        self.settle(at);
    }

    /// Handles a station's report that it does not have the name under which this station knew a peer.
    pub(super) fn gone(&mut self, io: &mut Io<'_, A>, name: EndId) {
        let known = self.peers.iter().position(|peer| peer.name == name);
        match known {
            Some(node) if name != EndId::NONE => self.ask(io, node as Node),
            _ => self.counters.foreign += 1,
        }
    }

    /// Handles a peer's report that it sends no message before `first` any more.
    fn skip_to(&mut self, io: &mut Io<'_, A>, node: Node, first: u32) {
        let next = self.peers[usize::from(node)].next_receive;
        if !is_before(next, first) {
            return;
        }
        let at = self.activate(io.now, node);
        let incoming = core::mem::take(&mut self.active(at).incoming);
        for index in incoming {
            let id = self.incoming[usize::from(index)].map(|message| message.id);
            if id.is_some_and(|id| is_before(id, first)) {
                self.end_incoming(io, index, Status::PeerRestarted);
            } else {
                self.active(at).incoming.push(index);
            }
        }
        let active = self.active(at);
        let skipped = first.wrapping_sub(next);
        if skipped >= AHEAD {
            active.done.clear();
        } else {
            for id in (0..skipped).map(|ahead| next.wrapping_add(ahead)) {
                active.done.take(id);
            }
        }
        active.refused.retain(|refused| !is_before(refused.0, first));
        self.peers[usize::from(node)].next_receive = first;
        self.matching.forget_all(node);
        self.advance(at);
        self.settle(at);
    }
}
