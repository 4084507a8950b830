//! One end of a stream between two nodes.

use crate::Scenario;
use sovia_link::Time;
use sovia_link::buffers::{Chunk, Whole};
use sovia_link::message::{Assembly, parts};
use sovia_link::stream::{Place, Stream, Verdict};
use sovia_link::wire::{HEADER, Item, Operation, Part, Payload, Report, Sending};
use std::collections::VecDeque;

/// Length of the longest frame, and the number of its bytes that do not belong to a part.
pub(super) const FRAME: u32 = 1500;
const FRAME_HEADER: usize = HEADER + 12 + 16;
/// Largest number of items received without an acknowledgement.
const OWED_MAX: u32 = 16;

/// A frame between two ends.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    Item { sending: Sending, ack: u32, item: Item<Chunk> },
    Ack(Box<Report>),
}

impl Frame {
    /// Returns the length of the frame in bytes.
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Frame::Item { item, .. } => sovia_link::stream::Load::bytes(item),
            Frame::Ack(report) => {
                let seen = if report.seen.is_some() { 12 } else { 0 };
                let marked = if report.marked.is_some() { 4 } else { 0 };
                (HEADER + 12 + seen + marked + 8 * report.ranges().len()) as u32
            }
        }
    }
}

/// Phase of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// The peer was silent for so long that this end has given up.
    GivenUp,
    /// The node has died.
    Dead,
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: u32,
    pub(super) phase: Phase,
    stream: Stream<Item<Chunk>, Item<Vec<u8>>>,
    assembly: Assembly,
    acks_owed: u32,
    /// Time when the end's timer expires.
    pub(super) timer: Option<Time>,
    /// True if the end is in its node's list of ends that may have frames to send.
    pub(super) is_ready: bool,
    pub(super) outgoing: Outgoing,
    /// Number of the next message to arrive.
    incoming: u64,
    /// Size of the end's own state in bytes, at present and at most.
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
}

/// Result of taking received items in order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// Number of completed messages.
    pub(super) messages: u32,
    /// Number of message bytes, of complete messages or not.
    pub(super) bytes: u64,
}

/// Messages that an end sends.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Number of messages to send; 0 if the flow has only the other direction.
    pub(super) all: u32,
    pub(super) posted: u32,
    /// Number of the last item of each message without an acknowledgement.
    lasts: VecDeque<u64>,
    /// Posting time of each message that has not arrived.
    pub(super) posted_at: VecDeque<Time>,
    pub(super) arrived: u32,
    /// Number of bytes that have arrived, of complete messages or not.
    pub(super) arrived_bytes: u64,
}

impl Outgoing {
    pub(super) fn is_done(&self) -> bool {
        self.arrived == self.all
    }
}

/// Returns the bytes of message `number` from a node.
fn message(node: u32, number: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8 ^ node as u8; len as usize];
    let name = (u64::from(node) << 32 | number).to_be_bytes();
    let begin = name.len().min(bytes.len());
    bytes[..begin].copy_from_slice(&name[..begin]);
    bytes
}

impl End {
    /// Makes an end. `first` has the numbers of the first items: this end's, and its peer's.
    pub(super) fn new(scenario: &Scenario, node: u32, first: (u64, u64)) -> End {
        let (timing, window) = (scenario.timing, scenario.window);
        let stream = Stream::controlled(timing, window, (scenario.control, FRAME), first);
        End {
            node,
            phase: Phase::Open,
            stream,
            assembly: Assembly::new(scenario.message),
            acks_owed: 0,
            timer: None,
            is_ready: false,
            outgoing: Outgoing::default(),
            incoming: 0,
            bytes: 0,
            most_bytes: 0,
        }
    }

    /// Posts messages, as many as may be in progress.
    pub(super) fn post(&mut self, scenario: &Scenario, now: Time) {
        let outgoing = &mut self.outgoing;
        while outgoing.posted < outgoing.all && outgoing.lasts.len() < scenario.depth as usize {
            let bytes = message(self.node, u64::from(outgoing.posted), scenario.message);
            let part = FRAME as usize - FRAME_HEADER;
            let mut last = 0;
            for part in parts(Operation::Send, None, Whole::from(bytes), part) {
                last = self.stream.push(Item::Part(part));
            }
            outgoing.posted += 1;
            outgoing.lasts.push_back(last);
            outgoing.posted_at.push_back(now);
        }
    }

    /// Returns the next frame. Like an agent's channel, prefers an item with an acknowledgement to an acknowledgement
    /// alone.
    pub(super) fn next_out(&mut self, now: Time) -> Option<Frame> {
        if self.phase != Phase::Open {
            return None;
        }
        let ack = self.stream.ack();
        if self.acks_owed <= 1
            && let Some((sending, item)) = self.stream.next_out(now)
        {
            self.acks_owed = 0;
            return Some(Frame::Item { sending, ack, item: item.clone() });
        }
        self.acks_owed = self.acks_owed.checked_sub(1)?;
        Some(Frame::Ack(Box::new(self.stream.report(now))))
    }

    /// Handles a frame from the node `from`. Returns the data that can be taken after it.
    pub(super) fn came(&mut self, from: u32, frame: Frame, marked: bool, now: Time) -> Taken {
        if self.phase != Phase::Open {
            return Taken::default();
        }
        if marked {
            self.stream.marked();
        }
        match frame {
            Frame::Ack(report) => {
                self.acknowledged(&report, now);
                Taken::default()
            }
            Frame::Item { sending, ack, item } => {
                self.acknowledged(&Report::plain(ack), now);
                self.item(from, sending, &item, now)
            }
        }
    }

    fn acknowledged(&mut self, report: &Report, now: Time) {
        let ack = self.stream.acknowledged(report, now);
        let ack = ack.expect("a peer acknowledges only what was sent");
        let lasts = &mut self.outgoing.lasts;
        while lasts.front().is_some_and(|&last| last < ack) {
            lasts.pop_front();
        }
    }

    fn item(&mut self, from: u32, sending: Sending, item: &Item<Chunk>, now: Time) -> Taken {
        let mut taken = Taken::default();
        let owned = match item {
            Item::Part(part) => {
                if self.stream.came_next(sending, now).is_some() {
                    self.acks_owed = self.acks_owed.max(1);
                    self.add(from, part, &mut taken);
                    self.take(from, &mut taken);
                    return taken;
                }
                let bytes = part.bytes.as_ref().to_vec();
                let (operation, immediate) = (part.operation, part.immediate);
                let (total, start) = (part.total, part.start);
                Item::Part(Part { operation, immediate, total, start, bytes })
            }
            Item::Read { .. } | Item::Close(_) => unreachable!("parts alone are sent"),
        };
        self.acks_owed = match self.stream.came(sending, owned, now) {
            Place::Next => self.acks_owed.max(1),
            Place::Early | Place::Outside => (self.acks_owed + 1).min(OWED_MAX),
        };
        self.take(from, &mut taken);
        taken
    }

    /// Takes the items that are in order.
    fn take(&mut self, from: u32, taken: &mut Taken) {
        while let Some((_, item)) = self.stream.take() {
            let Item::Part(part) = item else { unreachable!("parts alone are sent") };
            self.acks_owed = self.acks_owed.max(1);
            self.add(from, &part, taken);
        }
    }

    /// Adds a part to its message. Compares a complete message with the sent one.
    fn add<B: Payload + AsRef<[u8]>>(&mut self, from: u32, part: &Part<B>, taken: &mut Taken) {
        taken.bytes += part.bytes.as_ref().len() as u64;
        let Some(whole) = self.assembly.add(part) else { return };
        let expected = message(from, self.incoming, whole.bytes.len() as u32);
        assert!(whole.bytes == expected, "message {} of node {from} is another", self.incoming);
        self.incoming += 1;
        taken.messages += 1;
    }

    /// Handles the passing of time.
    pub(super) fn tick(&mut self, now: Time) {
        if self.phase == Phase::Open && self.stream.tick(now) == Verdict::Hopeless {
            self.phase = Phase::GivenUp;
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        if self.phase == Phase::Open { self.stream.deadline() } else { None }
    }

    pub(super) fn counts(&self) -> sovia_link::stream::Counts {
        self.stream.counts()
    }

    /// Returns the size of the end's own state in bytes: the parts that a channel also has, and the stream's queues.
    pub(super) fn state_bytes(&self) -> u64 {
        (size_of_val(&self.stream) + size_of_val(&self.assembly) + self.stream.heap_bytes()) as u64
    }
}
