//! Messages between two ends, reliable and in order.
//!
//! A [`Channel`] is one end. Calls may come in any order, as with quinn-proto's connections:
//!
//! - the program sends ([`Channel::send`], [`Channel::close`]) and takes messages ([`Channel::poll_message`]);
//! - the port passes in frames and the time ([`Channel::handle_frame`], [`Channel::handle_timeout`]). After any call
//!   the port sends the frames from [`Channel::poll_transmit`] until that function returns false. Then the port sets
//!   its timer by [`Channel::poll_timeout`];
//! - [`Channel::poll_event`] reports changes.
//!
//! Both ends are created with the same number, at any time. The end that has data to send says hello until the other
//! end answers. The first message arrives after one and a half round trips. The channel corrects loss, duplication,
//! reordering and corruption of frames. A channel never gives up; the owner drops a channel when the owner considers
//! the peer dead.
//!
//! An end that is dropped and created again with another seed has another epoch. The new end ignores frames for the
//! earlier end. The peer learns of the change when either end sends something, and is [`Broken`](Event::Broken) then.
//! Data in flight are lost, and the peer's owner creates a new end.
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
    /// Acknowledgement that this end owes the peer.
    owed: Owed,
    events: VecDeque<Event>,
    /// Set after `send` has returned [`Full`], until there is room.
    wants_room: bool,
    /// Nonce of the last probe, until its echo arrives.
    probed: Option<u64>,
    state: State,
    counters: Counters,
}

/// State of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// This end sends no more messages.
    Closed,
    Broken,
}

/// Acknowledgement that the peer needs for frames that have arrived since the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Nothing,
    /// The next expected number, which any frame carries.
    Number,
    /// Items that arrived out of order, which show losses: this needs a report.
    Report,
}

/// An outgoing frame.
enum Next {
    Word(Word),
    Item(Packet<Chunk>),
}

/// The send buffer has no room. Permanent if the message is longer than [`Config::message_max`], or the channel is
/// closed or broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel's send buffer is full")]
pub struct Full;

/// A change of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The peer has been found.
    Opened,
    /// A message has arrived while there was none.
    Readable,
    /// There is room again after [`Channel::send`] found none.
    Writable,
    /// The peer sends no more messages.
    Closed,
    /// Nothing arrives any more, in either direction.
    Broken(Reason),
    /// The peer has echoed the probe with this nonce ([`Channel::probe_into`]), so the probe arrived intact.
    Passed(u64),
}

/// Reason for which a channel is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A new end has replaced the peer. The new end knows nothing of the messages sent to the earlier peer.
    PeerRestarted,
}

/// Counts of incoming frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// All frames.
    pub frames: u64,
    /// Frames that were corrupt or violated the format.
    pub malformed: u64,
    /// Frames from an end that is not this end's peer, or no longer.
    pub stale: u64,
    /// Frames whose item had arrived before or was beyond the window.
    pub repeated: u64,
    /// Frames that were intact and legal, but impossible in this channel's state.
    pub refused: u64,
}

/// Returns the number of the channel that a frame is for.
///
/// # Errors
/// [`Malformed`]
pub fn channel_of_frame(frame: &[u8]) -> Result<u32, Malformed> {
    Frame::checked(frame).map(|frame| channel_of(frame.to()))
}

impl Channel {
    /// Creates an end of channel `local_id`. Every end needs its own `seed`, also an end that is created again. Draw
    /// the seed from the system's random numbers.
    pub fn new(config: Config, local_id: u32, seed: u64) -> Channel {
        Channel::with_greeting(config, Greeting::new(local_id, seed))
    }

    /// Creates an end of channel `id` without greetings: both ends already know both epochs.
    ///
    /// No two channels of one owner may have the same number and epochs. If the epochs are random and secret, no other
    /// station can forge a frame of the peer.
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
            // The peer's first number is its epoch too.
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

    /// Returns true if the send buffer has room.
    pub fn can_send(&self) -> bool {
        self.state == State::Open && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.stream.backlog() < self.config.send_buffer.max(1)
    }

    /// Queues a whole message if there is any room.
    ///
    /// # Errors
    /// [`Full`]. If the reason is a full buffer, [`Event::Writable`] reports when there is room.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Full> {
        self.check_room(message.len())?;
        self.push(message.to_vec());
        Ok(())
    }

    /// Like [`Channel::send`], but without a copy: takes the bytes out of `message`. On an error `message` is
    /// unchanged.
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

    /// Sends no more messages. The peer receives the messages sent so far, then a closing item.
    pub fn close(&mut self) {
        if self.state == State::Open {
            self.state = State::Closed;
            self.stream.push(Item::Close(Closing::Disconnected));
        }
    }

    /// Processes an incoming frame.
    ///
    /// # Errors
    /// [`Malformed`]; the frame is counted and dropped. The channel's state does not change.
    pub fn handle_frame(&mut self, now: Time, frame: &[u8]) -> Result<(), Malformed> {
        self.parse(frame).map(|packet| self.handle_packet(now, packet))
    }

    /// Processes incoming frames that the network has joined. Each frame has `segment` bytes, and the last may be
    /// shorter. Malformed frames are counted.
    pub fn handle_frames(&mut self, now: Time, bytes: &[u8], segment: usize) {
        let mut frames = bytes.chunks(segment.max(1)).peekable();
        while let Some(frame) = frames.next() {
            let Ok(packet) = self.parse(frame) else { continue };
            let train = frames.peek().and_then(|_| Train::begin(frame, &packet));
            let came_to = self.stream.ack();
            self.handle_packet(now, packet);
            let Some(mut train) = train.filter(|_| self.stream.ack() != came_to) else { continue };
            // Fast path for frames that continue the previous frame's message without ending it.
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
                // Most channels carry data in one direction only, so the acknowledgement usually changes nothing.
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

    /// Processes an acknowledgement. Returns false if it acknowledges items that were not sent.
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
        // An item in order goes to its message without being stored.
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

    /// Takes items in order while there is room.
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

    /// Processes the next item in order.
    fn take<B: Payload + AsRef<[u8]>>(&mut self, item: &Item<B>) {
        if self.inbox.add(item) && self.inbox.len() == 1 {
            self.events.push_back(Event::Readable);
        }
        if matches!(item, Item::Close(_)) {
            self.events.push_back(Event::Closed);
        }
    }

    /// Writes the next outgoing frame to `out`, replacing its contents. Returns false if there is none. The port calls
    /// it until it returns false.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        match self.next_out(now) {
            Some(Next::Word(word)) => word.emit_for(out, self.config.sends),
            Some(Next::Item(packet)) => packet.emit_for(out, self.config.sends),
            None => return false,
        }
        true
    }

    /// Like [`Channel::poll_transmit`], but writes to the port's own buffer. Returns the frame's length, or `None` if
    /// there is none. A frame longer than `room` is lost, and the returned length is 0.
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

    /// Moves the next message into `out`, replacing its contents. Returns false if there is none.
    pub fn poll_message(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.inbox.take(out) {
            return false;
        }
        self.fill_inbox();
        true
    }

    /// Returns the next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when to call [`Channel::handle_timeout`], unless a frame arrives before.
    pub fn poll_timeout(&self) -> Option<Time> {
        match (self.state, self.greeting.peer()) {
            (State::Broken, _) => None,
            (_, None) => self.greeting.deadline(),
            (_, Some(_)) => self.stream.deadline(),
        }
    }

    /// Fires the timers that are due at `now`. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        self.greeting.tick(now);
        // The verdict does not matter, because a channel never gives up.
        self.stream.tick(now);
    }

    /// Number of times in a row that frames were sent again because no answer came.
    pub fn tries(&self) -> u32 {
        self.stream.tries()
    }

    /// Fills `room` with a probe frame of exactly that length. [`Event::Passed`] reports its echo. Returns false if the
    /// peer is unknown or `room` is too short. By probes a port with two paths learns which lengths pass on a path.
    pub fn probe_into(&mut self, nonce: u64, room: &mut [u8]) -> bool {
        let Some(to) = self.greeting.peer() else { return false };
        let Some(padding) = room.len().checked_sub(Word::PROBE) else { return false };
        let padding = u32::try_from(padding).unwrap_or(u32::MAX);
        let from = self.greeting.own();
        self.probed = Some(nonce);
        let probe = Word::Probe { to, from, nonce, padding };
        probe.emit_into_for(room, self.config.sends) == Some(room.len())
    }

    /// Returns the number of the next part to send. The parts of a message of `len` bytes have the next
    /// [`Channel::parts_of`] numbers.
    pub fn next_part(&self) -> u64 {
        self.first_part() + self.stream.backlog() as u64
    }

    /// Returns the number of the oldest part that the peer has not acknowledged.
    pub fn first_part(&self) -> u64 {
        self.stream.base()
    }

    /// Returns the number of parts of a message of `len` bytes.
    pub fn parts_of(&self, len: usize) -> u64 {
        len.div_ceil(self.config.part()) as u64
    }

    /// Returns true if the peer has acknowledged every part.
    pub fn is_idle(&self) -> bool {
        self.stream.backlog() == 0
    }

    /// Returns counts of incoming frames.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests;
