//! How the two ends of a channel learn each other's epochs.
//!
//! An end draws its epoch when it is made. Nothing but greetings is taken of an end that does not know ours: a
//! frame that bears our epoch was sent after we were made, by an end that had heard of us.
//!
//! Hello without an epoch of the receiver's asks for one with it; the end that receives this knows the sender's
//! epoch, and that the sender is there. An end that is known already is asked by a probe, with a fresh nonce, when
//! another one says hello: only an echo shows that it is not an earlier one's frame that was late.

use crate::Time;
use crate::stream::Timing;
use crate::wire::{EndId, Packet, Word};
use std::collections::VecDeque;

/// Greetings that are to be sent and have not been; more are dropped, as a network might.
const PENDING_MAX: usize = 8;

/// What an end knows of the other.
#[derive(Debug)]
pub(super) struct Greeting {
    own: EndId,
    peer: Option<EndId>,
    /// Where nonces come from.
    random: Random,
    pending: VecDeque<Word>,
    /// The end that is asked whether it has replaced the peer, and the nonce.
    probed: Option<(EndId, u64)>,
    /// Times that a hello has been sent in vain.
    tries: u32,
    /// When the next is due; `None` before the first.
    deadline: Option<Time>,
    due: bool,
}

/// What a greeting means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing new.
    Nothing,
    /// The peer is known from now on.
    Peer(EndId),
    /// Another end has taken the peer's place.
    Replaced,
    /// It is of an end that is none of ours, or not any more.
    Stale,
}

impl Greeting {
    /// An end of channel `id`.
    pub(super) fn new(id: u32, seed: u64) -> Greeting {
        let mut random = Random(seed);
        let epoch = core::iter::repeat_with(|| random.next() as u32).find(|&epoch| epoch != 0);
        Greeting::of(name(id, epoch.unwrap_or(1)), random)
    }

    /// An end of channel `id` that knows the other one already.
    pub(super) fn known(id: u32, own: u32, peer: u32) -> Greeting {
        let mut greeting = Greeting::of(name(id, own), Random(u64::from(own)));
        greeting.peer = Some(name(id, peer));
        greeting
    }

    pub(super) fn of(own: EndId, random: Random) -> Greeting {
        let pending = VecDeque::new();
        Greeting {
            own,
            peer: None,
            random,
            pending,
            probed: None,
            tries: 0,
            deadline: None,
            due: true,
        }
    }

    pub(super) fn own(&self) -> EndId {
        self.own
    }

    pub(super) fn peer(&self) -> Option<EndId> {
        self.peer
    }

    /// Whether a frame is for this end, and of its peer.
    pub(super) fn is_between(&self, to: EndId, from: EndId) -> bool {
        to == self.own && self.peer == Some(from)
    }

    /// The name by which an end is called whose epoch is not known.
    fn unknown_end(&self) -> EndId {
        name(channel_of(self.own), 0)
    }

    /// Whether it is an end of this channel.
    fn is_end(&self, end: EndId) -> bool {
        channel_of(end) == channel_of(self.own) && epoch_of(end) != 0
    }

    fn say(&mut self, word: Word) {
        if self.pending.len() < PENDING_MAX && !self.pending.contains(&word) {
            self.pending.push_back(word);
        }
    }

    /// The next greeting to send. One that answers nothing is sent only if there is a `reason` to be known.
    pub(super) fn next(&mut self, timing: &Timing, reason: bool, now: Time) -> Option<Word> {
        if let Some(word) = self.pending.pop_front() {
            return Some(word);
        }
        if self.peer.is_some() || !reason || !self.due {
            return None;
        }
        self.due = false;
        self.deadline = Some(now.after(timing.pause(self.tries)));
        Some(Packet::Hello { to: self.unknown_end(), from: self.own })
    }

    /// When hello is to be said again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.due = true;
            self.tries = self.tries.saturating_add(1);
        }
    }

    /// An end has said hello.
    pub(super) fn hello(&mut self, to: EndId, from: EndId) -> Heard {
        if !self.is_end(from) {
            return Heard::Stale;
        }
        let own = self.own;
        if to == self.unknown_end() {
            match self.peer {
                Some(peer) if peer != from => self.probe(from),
                _ => self.say(Packet::Hello { to: from, from: own }),
            }
            return Heard::Nothing;
        }
        // It is not answered: an end that has said hello without an epoch has something to send, which shows the
        // other that it is known.
        self.addressed(to, from)
    }

    /// A frame has come from an end that may know this one.
    pub(super) fn addressed(&mut self, to: EndId, from: EndId) -> Heard {
        if !self.is_end(from) {
            return Heard::Stale;
        }
        match self.peer {
            _ if to != self.own => {
                // It is for an end that was here before; its sender should know.
                if channel_of(to) == channel_of(self.own) {
                    self.say(Packet::Hello { to: self.unknown_end(), from: self.own });
                }
                Heard::Stale
            }
            None => {
                self.peer = Some(from);
                self.deadline = None;
                Heard::Peer(from)
            }
            Some(peer) if peer == from => Heard::Nothing,
            Some(_) => Heard::Stale,
        }
    }

    /// Asks an end whether it is there now.
    fn probe(&mut self, end: EndId) {
        let nonce = match self.probed {
            Some((probed, nonce)) if probed == end => nonce,
            _ => self.random.next(),
        };
        self.probed = Some((end, nonce));
        self.say(Packet::Probe { to: end, from: self.own, nonce, padding: 0 });
    }

    /// This end has been asked whether it is there.
    pub(super) fn probed(&mut self, to: EndId, from: EndId, nonce: u64) -> Heard {
        if to != self.own || !self.is_end(from) {
            return Heard::Stale;
        }
        self.say(Packet::Echo { to: from, from: to, nonce });
        Heard::Nothing
    }

    /// An end is there.
    pub(super) fn echoed(&mut self, to: EndId, from: EndId, nonce: u64) -> Heard {
        if to == self.own && self.probed == Some((from, nonce)) {
            Heard::Replaced
        } else {
            Heard::Stale
        }
    }
}

/// An end's name: the channel's number and the end's epoch.
pub(super) fn name(channel: u32, epoch: u32) -> EndId {
    EndId(u64::from(channel) << 32 | u64::from(epoch))
}

/// The number of the channel that an end belongs to.
pub(super) fn channel_of(end: EndId) -> u32 {
    (end.0 >> 32) as u32
}

pub(super) fn epoch_of(end: EndId) -> u32 {
    end.0 as u32
}

/// Numbers that follow from a seed (splitmix64).
#[derive(Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
