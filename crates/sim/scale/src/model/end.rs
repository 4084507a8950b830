//! One end of a stream between two nodes.

use crate::Scenario;
use sovia_link::Time;
use sovia_link::buffers::{Chunk, Whole};
use sovia_link::message::{Assembly, parts};
use sovia_link::stream::{Place, Stream, Verdict};
use sovia_link::wire::{HEADER, Item, Operation, Part, Payload, Report, Sending};
use std::collections::VecDeque;

/// Bytes of the longest frame, and those of one that are not a part's.
pub(super) const FRAME: u32 = 1500;
const FRAME_HEADER: usize = HEADER + 12 + 16;
/// The most acknowledgements that an end owes at a time.
const OWED_MAX: u32 = 16;

/// What travels.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    Item { sending: Sending, ack: u32, item: Item<Chunk> },
    Ack(Box<Report>),
}

impl Frame {
    /// Bytes of the frame.
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

/// What an end is up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Its peer has not answered for so long that it was given up.
    GivenUp,
    /// Its node has died.
    Dead,
}

/// An end.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: u32,
    pub(super) phase: Phase,
    stream: Stream<Item<Chunk>, Item<Vec<u8>>>,
    assembly: Assembly,
    acks_owed: u32,
    /// When its timer goes off.
    pub(super) timer: Option<Time>,
    /// It is among those of its node that may have something to send.
    pub(super) is_ready: bool,
    pub(super) outgoing: Outgoing,
    /// The number of the next message that arrives.
    incoming: u64,
    /// Bytes of its own state, by now and at most.
    pub(super) bytes: u64,
    pub(super) most_bytes: u64,
}

/// What has been taken in order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// Messages that are complete.
    pub(super) messages: u32,
    /// Bytes of messages, complete or not.
    pub(super) bytes: u64,
}

/// Messages that an end sends.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// How many it sends in all; none where the flow goes the other way alone.
    pub(super) all: u32,
    pub(super) posted: u32,
    /// The last item of each message that has not been acknowledged.
    lasts: VecDeque<u64>,
    /// When each message that has not arrived was posted.
    pub(super) posted_at: VecDeque<Time>,
    pub(super) arrived: u32,
    /// Bytes that have arrived, of whole messages or not.
    pub(super) arrived_bytes: u64,
}

impl Outgoing {
    pub(super) fn is_done(&self) -> bool {
        self.arrived == self.all
    }
}

/// The bytes of the message of that number from a node.
fn message(node: u32, number: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![number as u8 ^ node as u8; len as usize];
    let name = (u64::from(node) << 32 | number).to_be_bytes();
    let begin = name.len().min(bytes.len());
    bytes[..begin].copy_from_slice(&name[..begin]);
    bytes
}

impl End {
    /// The first items of the two ends have those numbers: this end's, and its peer's.
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

    /// Posts messages, as many as may be under way.
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

    /// The next frame: as an agent's channel does, an item that acknowledges as well, or an acknowledgement alone.
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

    /// A frame has come from the node `from`; what can be taken with it.
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

    /// Takes what is in order by now.
    fn take(&mut self, from: u32, taken: &mut Taken) {
        while let Some((_, item)) = self.stream.take() {
            let Item::Part(part) = item else { unreachable!("parts alone are sent") };
            self.acks_owed = self.acks_owed.max(1);
            self.add(from, &part, taken);
        }
    }

    /// Adds a part to its message, and compares the message with what was sent if it is whole.
    fn add<B: Payload + AsRef<[u8]>>(&mut self, from: u32, part: &Part<B>, taken: &mut Taken) {
        taken.bytes += part.bytes.as_ref().len() as u64;
        let Some(whole) = self.assembly.add(part) else { return };
        let expected = message(from, self.incoming, whole.bytes.len() as u32);
        assert!(whole.bytes == expected, "message {} of node {from} is another", self.incoming);
        self.incoming += 1;
        taken.messages += 1;
    }

    /// Time has passed.
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

    /// Bytes of its own state by now: what a channel has of the same kind, and the stream's queues.
    pub(super) fn state_bytes(&self) -> u64 {
        (size_of_val(&self.stream) + size_of_val(&self.assembly) + self.stream.heap_bytes()) as u64
    }
}
