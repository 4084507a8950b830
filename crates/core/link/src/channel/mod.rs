//! Messages between two ends, reliable and in order.
//!
//! A [`Channel`] is one end. It is driven as quinn-proto's connections are, in any order of calls:
//!
//! - the program sends ([`Channel::send`], [`Channel::close`]) and takes messages ([`Channel::poll_message`]);
//! - the port hands in frames and the time ([`Channel::handle_frame`], [`Channel::handle_timeout`]), and after any
//!   call sends what [`Channel::poll_transmit`] gives it until that returns false, then sets its timer by
//!   [`Channel::poll_timeout`];
//! - [`Channel::poll_event`] tells what has changed.
//!
//! The two ends are made with the same number, and may be made at any time. The one that has something to send says
//! hello until the other answers; the first message is there after one and a half round trips. Frames may get lost, double,
//! overtake each other and be corrupt: that is made good, for as long as the channel exists. There is no limit to
//! that; its owner drops a channel that it does not believe in any more.
//!
//! An end that is dropped and made again has another epoch, if its seed is another one. Frames of the earlier one are
//! not taken. The other end finds out when either sends something, and is [`Broken`](Event::Broken) then: what was on
//! its way is lost, and its owner makes a new end.
//!
//! ```
//! use sovia_link::{Channel, Config, Time};
//!
//! let mut ends = [Channel::new(Config::default(), 5, 17), Channel::new(Config::default(), 5, 39)];
//! ends[0].send(b"hello").unwrap();
//! let (now, mut frame, mut message) = (Time::ZERO, Vec::new(), Vec::new());
//! // A network that loses nothing.
//! while !ends[0].is_idle() {
//!     for (from, to) in [(0, 1), (1, 0)] {
//!         while ends[from].poll_transmit(now, &mut frame) {
//!             ends[to].handle_frame(now, &frame)?;
//!         }
//!     }
//! }
//! assert!(ends[1].poll_message(&mut message));
//! assert_eq!(message, b"hello");
//! # Ok::<(), sovia_link::Malformed>(())
//! ```

mod config;
mod greeting;
mod inbox;

pub use config::Config;

use crate::buffers::{Chunk, Whole};
use crate::message::parts;
use crate::stream::{Place, Stream};
use crate::wire::{Closing, EndId, Frame, Item, Packet, Payload, Report, Sending, Train, Word};
use crate::{Malformed, Time, wire};
use greeting::{Greeting, Heard, channel_of, epoch_of};
use inbox::{Inbox, Received};
use std::collections::VecDeque;

/// One end of a reliable, ordered message channel to one peer.
#[derive(Debug)]
pub struct Channel {
    config: Config,
    greeting: Greeting,
    stream: Stream<Item<Chunk>, Received>,
    inbox: Inbox,
    /// What the other end is to be told of what has come.
    owed: Owed,
    events: VecDeque<Event>,
    /// `send` has returned [`Full`], and there has been no room since.
    wants_room: bool,
    /// The last probe's nonce, until it is answered.
    probed: Option<u64>,
    state: State,
    counters: Counters,
}

/// How far a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// This end sends no more messages.
    Closed,
    Broken,
}

/// What the other end is to be told of frames that have come since it was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Nothing,
    /// The next number, which any frame tells.
    Number,
    /// What has come out of its turn, which tells of losses: that takes a report.
    Report,
}

/// A frame to be sent.
enum Next {
    Word(Word),
    Item(Packet<Chunk>),
}

/// The send buffer has no room. Or the message is longer than [`Config::message_max`], or the channel closed or
/// broken: then it never will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel's send buffer is full")]
pub struct Full;

/// What has happened to a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The other end is there.
    Opened,
    /// There is a message where there was none.
    Readable,
    /// There is room where [`Channel::send`] found none.
    Writable,
    /// The other end sends no more messages.
    Closed,
    /// Nothing arrives any more, in either direction.
    Broken(Reason),
    /// The probe with that nonce ([`Channel::probe_into`]) has been answered: it has come whole.
    Passed(u64),
}

/// Why a channel is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The other end has been replaced by a new one, which knows nothing of what was sent to it.
    PeerRestarted,
}

/// What has become of frames that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// All of them.
    pub frames: u64,
    /// Those that were corrupt or not of the format.
    pub malformed: u64,
    /// Those of an end that is not, or no longer, this one's peer.
    pub stale: u64,
    /// Those that came before or far too early.
    pub repeated: u64,
    /// Those that were whole and legal, and not what could follow in this channel.
    pub refused: u64,
}

/// The number of the channel that a frame is for.
///
/// # Errors
/// [`Malformed`]
pub fn channel_of_frame(frame: &[u8]) -> Result<u32, Malformed> {
    Frame::checked(frame).map(|frame| channel_of(frame.to()))
}

impl Channel {
    /// An end of channel `local_id`. No two ends may have the same `seed`, nor may one that is made again have its
    /// earlier one: it should be drawn from the system's random numbers.
    pub fn new(config: Config, local_id: u32, seed: u64) -> Channel {
        Channel::with_greeting(config, Greeting::new(local_id, seed))
    }

    /// An end of channel `id` whose epoch, and the other end's, both ends know already: nobody is greeted. No two channels
    /// of one owner may have the same number and epochs; where these are drawn at random and told to nobody else, no
    /// other station can send what this end would take for its peer's.
    ///
    /// ```
    /// # use sovia_link::{Channel, Config, Time};
    /// let mut a = Channel::between(Config::default(), 5, 17, 39);
    /// let mut b = Channel::between(Config::default(), 5, 39, 17);
    /// a.send(b"hello").unwrap();
    /// let (mut frame, mut message) = (Vec::new(), Vec::new());
    /// assert!(a.poll_transmit(Time::ZERO, &mut frame));
    /// b.handle_frame(Time::ZERO, &frame)?;
    /// assert!(b.poll_message(&mut message));
    /// # Ok::<(), sovia_link::Malformed>(())
    /// ```
    pub fn between(config: Config, id: u32, own_epoch: u32, peer_epoch: u32) -> Channel {
        let mut channel =
            Channel::with_greeting(config, Greeting::known(id, own_epoch, peer_epoch));
        channel.stream.receive_from(peer_epoch.into());
        channel
    }

    fn with_greeting(config: Config, greeting: Greeting) -> Channel {
        let own = u64::from(epoch_of(greeting.own()));
        let window = config.window.max(1);
        let control = (config.control, u32::try_from(config.mtu).unwrap_or(u32::MAX));
        Channel {
            config,
            greeting,
            // What the peer begins with is its epoch, too.
            stream: Stream::controlled(config.timing(), window, control, (own, 0)),
            inbox: Inbox::new(config.longest(), config.receive_buffer),
            owed: Owed::Nothing,
            events: VecDeque::new(),
            wants_room: false,
            probed: None,
            state: State::Open,
            counters: Counters::default(),
        }
    }

    /// Whether the send buffer has room.
    pub fn can_send(&self) -> bool {
        self.state == State::Open && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.stream.backlog() < self.config.send_buffer.max(1)
    }

    /// Sends a message: all of it, if there is any room at all.
    ///
    /// # Errors
    /// [`Full`]; where there will be room, [`Event::Writable`] tells of it.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Full> {
        self.check_room(message.len())?;
        self.push(message.to_vec());
        Ok(())
    }

    /// As [`Channel::send`], without a copy. A message that is refused is left as it was, others are taken out.
    ///
    /// # Errors
    /// [`Full`]
    pub fn send_from(&mut self, message: &mut Vec<u8>) -> Result<(), Full> {
        self.check_room(message.len())?;
        self.push(core::mem::take(message));
        Ok(())
    }

    fn check_room(&mut self, len: usize) -> Result<(), Full> {
        let fits = u32::try_from(len).is_ok_and(|len| len <= self.config.longest());
        if !self.can_send() || !fits {
            self.wants_room |= !self.has_room();
            return Err(Full);
        }
        Ok(())
    }

    fn push(&mut self, message: Vec<u8>) {
        for part in parts(wire::Operation::Send, None, Whole::from(message), self.config.part()) {
            self.stream.push(Item::Part(part));
        }
    }

    /// Sends no more messages. Those that have been sent arrive, then the other end is told.
    pub fn close(&mut self) {
        if self.state == State::Open {
            self.state = State::Closed;
            self.stream.push(Item::Close(Closing::Disconnected));
        }
    }

    /// A frame has come.
    ///
    /// # Errors
    /// [`Malformed`]; the frame is then counted and dropped, and nothing else is lost.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) -> Result<(), Malformed> {
        self.parse(frame).map(|packet| self.handle_packet(now, packet))
    }

    /// Frames have come that the network has joined: each has `segment` bytes, but for the last one, which may have less. Those that are
    /// none are counted.
    pub fn handle_frames(&mut self, now: Time, bytes: &[u8], segment: usize) {
        let mut frames = bytes.chunks(segment.max(1)).peekable();
        while let Some(frame) = frames.next() {
            let Ok(packet) = self.parse(frame) else { continue };
            let train = frames.peek().and_then(|_| Train::begin(frame, &packet));
            let came_to = self.stream.ack();
            self.handle_packet(now, packet);
            let Some(mut train) = train.filter(|_| self.stream.ack() != came_to) else { continue };
            // What carries on with the message of the frame before, and does not end it.
            while !self.stream.has_early()
                && let Some(&frame) = frames.peek()
                && let Some((sending, part)) = train.next(frame)
                && !part.is_last()
                && self.inbox.has_room()
                && self.inbox.fits(&Item::Part(part))
                && self.stream.came_next(sending, now).is_some()
            {
                frames.next();
                self.counters.frames += 1;
                self.inbox.add(&Item::Part(part));
            }
        }
    }

    fn parse<'a>(&mut self, frame: &'a [u8]) -> Result<Packet<&'a [u8]>, Malformed> {
        self.counters.frames += 1;
        let packet = Packet::parse_for(frame, self.config.link);
        packet.inspect_err(|_| self.counters.malformed += 1)
    }

    fn handle_packet(&mut self, now: Time, packet: Packet<&[u8]>) {
        if self.state == State::Broken {
            return;
        }
        match packet {
            Packet::Hello { to, from } => {
                let heard = self.greeting.hello(to, from);
                self.heard(heard);
            }
            Packet::Probe { to, from, nonce, .. } => {
                let heard = self.greeting.probed(to, from, nonce);
                self.heard(heard);
            }
            Packet::Echo { to, from, nonce }
                if self.greeting.is_between(to, from) && self.probed == Some(nonce) =>
            {
                self.probed = None;
                self.events.push_back(Event::Passed(nonce));
            }
            Packet::Echo { to, from, nonce } => {
                let heard = self.greeting.echoed(to, from, nonce);
                self.heard(heard);
            }
            Packet::Stream { to, from, sending, ack, item } => {
                // Of most channels that bring something nothing goes the other way.
                if self.is_addressed(to, from)
                    && (self.stream.is_settled(ack) || self.acknowledged(&Report::plain(ack), now))
                {
                    self.came(sending, item, now);
                }
            }
            Packet::Ack { to, from, report } => {
                if self.is_addressed(to, from) {
                    self.acknowledged(&report, now);
                }
            }
            Packet::Datagram { .. } | Packet::Gone { .. } | Packet::Meeting(_) => {
                self.counters.refused += 1;
            }
        }
    }

    fn is_addressed(&mut self, to: EndId, from: EndId) -> bool {
        let heard = self.greeting.addressed(to, from);
        self.heard(heard);
        heard != Heard::Stale
    }

    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Peer(peer) => {
                self.stream.receive_from(epoch_of(peer).into());
                self.events.push_back(Event::Opened);
            }
            Heard::Replaced => {
                self.state = State::Broken;
                self.events.push_back(Event::Broken(Reason::PeerRestarted));
            }
            Heard::Stale => self.counters.stale += 1,
        }
    }

    /// Whether an acknowledgement can be true.
    fn acknowledged(&mut self, report: &Report, now: Time) -> bool {
        let possible = self.stream.acknowledged(report, now).is_some();
        if !possible {
            self.counters.refused += 1;
        }
        if self.wants_room && self.can_send() {
            self.wants_room = false;
            self.events.push_back(Event::Writable);
        }
        possible
    }

    fn came(&mut self, sending: Sending, item: Item<&[u8]>, now: Time) {
        // What comes in its turn goes to its message without being kept.
        if self.inbox.has_room()
            && self.inbox.fits(&item)
            && self.stream.came_next(sending, now).is_some()
        {
            self.owed = self.owed.max(Owed::Number);
            self.take(&item);
            return self.fill_inbox();
        }
        let place = self.stream.came(sending, item.into_owned(), now);
        self.owed = self.owed.max(match place {
            Place::Next => Owed::Number,
            Place::Early | Place::Outside => Owed::Report,
        });
        self.counters.repeated += u64::from(place == Place::Outside);
        self.fill_inbox();
    }

    /// Takes what is in order, as far as there is room.
    fn fill_inbox(&mut self) {
        while self.inbox.has_room()
            && let Some(item) = self.stream.peek()
        {
            if !self.inbox.fits(item) {
                self.counters.refused += 1;
                self.stream.discard();
                return;
            }
            let Some((_, item)) = self.stream.take() else { return };
            self.owed = self.owed.max(Owed::Number);
            self.take(&item);
        }
    }

    /// The next item is taken.
    fn take<B: Payload + AsRef<[u8]>>(&mut self, item: &Item<B>) {
        if self.inbox.add(item) && self.inbox.len() == 1 {
            self.events.push_back(Event::Readable);
        }
        if matches!(item, Item::Close(_)) {
            self.events.push_back(Event::Closed);
        }
    }

    /// Fills `out` with the next frame to send, in place of what is in it; false if there is none. Its port should
    /// call again until there is none.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        match self.next_out(now) {
            Some(Next::Word(word)) => word.emit_for(out, self.config.sends),
            Some(Next::Item(packet)) => packet.emit_for(out, self.config.sends),
            None => return false,
        }
        true
    }

    /// As [`Channel::poll_transmit`], into the port's own buffer: the frame's length, or `None` if there is nothing to send.
    /// A frame for which `room` is too short is lost, and has length 0.
    pub fn poll_transmit_into(&mut self, now: Time, room: &mut [u8]) -> Option<usize> {
        let len = match self.next_out(now)? {
            Next::Word(word) => word.emit_into_for(room, self.config.sends),
            Next::Item(packet) => packet.emit_into_for(room, self.config.sends),
        };
        Some(len.unwrap_or(0))
    }

    fn next_out(&mut self, now: Time) -> Option<Next> {
        if self.state == State::Broken {
            return None;
        }
        let reason = self.stream.backlog() > 0;
        if let Some(word) = self.greeting.next(&self.config.timing(), reason, now) {
            return Some(Next::Word(word));
        }
        let to = self.greeting.peer()?;
        let (from, ack) = (self.greeting.own(), self.stream.ack());
        if self.owed <= Owed::Number
            && let Some((sending, item)) = self.stream.next_out(now)
        {
            self.owed = Owed::Nothing;
            let item = item.clone();
            return Some(Next::Item(Packet::Stream { to, from, sending, ack, item }));
        }
        if core::mem::replace(&mut self.owed, Owed::Nothing) != Owed::Nothing {
            let report = self.stream.report_within(self.config.ranges(), now);
            return Some(Next::Word(Word::Ack { to, from, report }));
        }
        None
    }

    /// Fills `out` with the next message, in place of what is in it; false if there is none.
    pub fn poll_message(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.inbox.take(out) {
            return false;
        }
        self.fill_inbox();
        true
    }

    /// What has happened since it was asked last.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Channel::handle_timeout`] is to be called, if no frame changes that before.
    pub fn poll_timeout(&self) -> Option<Time> {
        match (self.state, self.greeting.peer()) {
            (State::Broken, _) => None,
            (_, None) => self.greeting.deadline(),
            (_, Some(_)) => self.stream.deadline(),
        }
    }

    /// Time has passed. Too early a call does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.greeting.tick(now);
        // There is no limit to its patience.
        self.stream.tick(now);
    }

    /// How often in a row what was sent has been sent again for want of any answer.
    pub fn tries(&self) -> u32 {
        self.stream.tries()
    }

    /// Fills `room` with a frame of just that length, of which [`Event::Passed`] tells if it arrives; false where the other
    /// end is not known, or where there is too little room. A port that has two ways learns by it which length passes on one.
    pub fn probe_into(&mut self, nonce: u64, room: &mut [u8]) -> bool {
        let Some(to) = self.greeting.peer() else { return false };
        let Some(padding) = room.len().checked_sub(Word::PROBE) else { return false };
        let padding = u32::try_from(padding).unwrap_or(u32::MAX);
        let from = self.greeting.own();
        self.probed = Some(nonce);
        let probe = Word::Probe { to, from, nonce, padding };
        probe.emit_into_for(room, self.config.sends) == Some(room.len())
    }

    /// The number of the next part that is sent. A message of `len` bytes more has the parts up to [`Channel::parts_of`] of them.
    pub fn next_part(&self) -> u64 {
        self.first_part() + self.stream.backlog() as u64
    }

    /// The number of the oldest part that the other end has not acknowledged.
    pub fn first_part(&self) -> u64 {
        self.stream.base()
    }

    /// How many parts so many bytes of one message are, or begin.
    pub fn parts_of(&self, len: usize) -> u64 {
        len.div_ceil(self.config.part()) as u64
    }

    /// Everything sent has been acknowledged.
    pub fn is_idle(&self) -> bool {
        self.stream.backlog() == 0
    }

    /// What has become of frames that came.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
