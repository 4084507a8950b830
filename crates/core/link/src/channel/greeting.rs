//! How the two ends of a channel learn each other's epochs.
//!
//! An end draws its epoch when it is created. From a peer that does not know this end's epoch, the end accepts only
//! greetings. A frame with this end's epoch was sent after this end was created, by a peer that knew of this end.
//!
//! A hello without the receiver's epoch asks for a hello with that epoch. The end that receives the answer knows that
//! the peer exists now, and the peer's epoch. If an end already has a peer and another end says hello, the first end
//! sends a probe with a fresh nonce. Only an echo proves that the hello was not a late frame of an earlier end.

use crate::Time;
use crate::stream::Timing;
use crate::wire::{EndId, Packet, Word};
use std::collections::VecDeque;

/// Largest number of greetings that wait to be sent. Further greetings are dropped, as a network might drop them.
const PENDING_MAX: usize = 8;

/// State of one end's knowledge about the other end.
#[derive(Debug)]
pub(super) struct Greeting {
    own: EndId,
    peer: Option<EndId>,
    /// Source of nonces.
    random: Random,
    pending: VecDeque<Word>,
    /// An end that may have replaced the peer and has been probed, with the probe's nonce.
    probed: Option<(EndId, u64)>,
    /// Number of hellos sent without an answer.
    tries: u32,
    /// When the next hello is due; `None` before the first.
    deadline: Option<Time>,
    due: bool,
}

/// Effect of a received greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// No change.
    Nothing,
    /// The peer is known from now on.
    Peer(EndId),
    /// Another end has replaced the peer.
    Replaced,
    /// The sender is not this end's peer, or no longer.
    Stale,
}

impl Greeting {
    /// Creates the state of an end of channel `id`.
    pub(super) fn new(id: u32, seed: u64) -> Greeting {
        let mut random = Random(seed);
        let epoch = core::iter::repeat_with(|| random.next() as u32).find(|&epoch| epoch != 0);
        Greeting::of(name(id, epoch.unwrap_or(1)), random)
    }

    /// Creates the state of an end of channel `id` that already knows its peer.
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

    /// Returns true if a frame is addressed to this end and comes from its peer.
    pub(super) fn is_between(&self, to: EndId, from: EndId) -> bool {
        to == self.own && self.peer == Some(from)
    }

    /// Returns the name for an end of this channel whose epoch is unknown.
    fn unknown_end(&self) -> EndId {
        name(channel_of(self.own), 0)
    }

    /// Returns true if `end` is an end of this channel with an epoch.
    fn is_end(&self, end: EndId) -> bool {
        channel_of(end) == channel_of(self.own) && epoch_of(end) != 0
    }

    fn say(&mut self, word: Word) {
        if self.pending.len() < PENDING_MAX && !self.pending.contains(&word) {
            self.pending.push_back(word);
        }
    }

    /// Returns the next greeting to send. A hello that answers nothing is sent only if there is a `reason`.
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

    /// Returns when to say hello again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// Fires the timer if it is due at `now`.
    pub(super) fn tick(&mut self, now: Time) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.due = true;
            self.tries = self.tries.saturating_add(1);
        }
    }

    /// Processes a hello.
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
        // No answer is needed. An end that sent a hello without an epoch has data to send, and these data show the peer
        // that it is known.
        self.addressed(to, from)
    }

    /// Processes a frame whose sender may know this end.
    pub(super) fn addressed(&mut self, to: EndId, from: EndId) -> Heard {
        if !self.is_end(from) {
            return Heard::Stale;
        }
        match self.peer {
            _ if to != self.own => {
                // The frame is for an earlier end. This end says hello so that the sender learns of the change.
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

    /// Asks an end whether it exists now.
    fn probe(&mut self, end: EndId) {
        let nonce = match self.probed {
            Some((probed, nonce)) if probed == end => nonce,
            _ => self.random.next(),
        };
        self.probed = Some((end, nonce));
        self.say(Packet::Probe { to: end, from: self.own, nonce, padding: 0 });
    }

    /// Processes a probe, and answers it.
    pub(super) fn probed(&mut self, to: EndId, from: EndId, nonce: u64) -> Heard {
        if to != self.own || !self.is_end(from) {
            return Heard::Stale;
        }
        self.say(Packet::Echo { to: from, from: to, nonce });
        Heard::Nothing
    }

    /// Processes an echo.
    pub(super) fn echoed(&mut self, to: EndId, from: EndId, nonce: u64) -> Heard {
        if to == self.own && self.probed == Some((from, nonce)) {
            Heard::Replaced
        } else {
            Heard::Stale
        }
    }
}

/// Builds an end's name from the channel's number and the end's epoch.
pub(super) fn name(channel: u32, epoch: u32) -> EndId {
    EndId(u64::from(channel) << 32 | u64::from(epoch))
}

/// Returns the number of the channel that an end belongs to.
pub(super) fn channel_of(end: EndId) -> u32 {
    (end.0 >> 32) as u32
}

pub(super) fn epoch_of(end: EndId) -> u32 {
    end.0 as u32
}

/// A generator of pseudo-random numbers (splitmix64).
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
