use super::*;
use crate::order::{Coalescer, Next, Take, Taker};
use crate::path::{CANCELLED, ENTERED, switch_word};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Number of entries in the ring.
const SLOTS: u32 = 8;
/// Number of bytes that fit in an entry.
const INLINE: usize = 3;
/// Number of packets that may be unacknowledged.
const WINDOW: u32 = 4;
/// Length of the overflow buffer in bytes.
const OVERFLOW_BUFFER: usize = 64;
/// Value of a byte that stands for overwritten memory.
const OTHER: u8 = 0xff;

#[derive(Debug, Clone)]
struct Entry {
    number: u32,
    /// Bytes of the entry's message. Empty for an acknowledgement.
    bytes: Vec<u8>,
    is_ordered: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    posted: u32,
    taken_bytes: u32,
    packets: u32,
    head: u64,
}

/// Message that the sender's NIC passes on to the receiver's NIC.
#[derive(Debug, Clone)]
enum Event {
    Entry(Entry),
    Coalesced { after: u32, start: u64, bytes: Vec<u8> },
}

/// A sender, two NICs with a channel between them, and a receiver.
#[derive(Debug)]
struct World {
    stream: Vec<u8>,
    // The sender.
    ring: Vec<Option<Entry>>,
    entries: u32,
    coalescer: Coalescer,
    bytes: u32,
    after: u32,
    start: u64,
    overflow_buffer: Vec<u8>,
    credit: Credit,
    // Between the NICs.
    events: VecDeque<Event>,
    credits: VecDeque<Credit>,
    // The receiver.
    arrived: VecDeque<Entry>,
    held: VecDeque<Entry>,
    coalesced: VecDeque<u8>,
    coalesced_after: u32,
    tail: u64,
    taker: Taker,
    own: Credit,
    front: usize,
    had: Vec<u8>,
}

impl World {
    fn new(bytes: u32) -> World {
        let credit = Credit { posted: SLOTS, taken_bytes: bytes, ..Credit::default() };
        World {
            stream: Vec::new(),
            ring: vec![None; SLOTS as usize],
            entries: 0,
            coalescer: Coalescer::default(),
            bytes,
            after: 0,
            start: 0,
            overflow_buffer: Vec::new(),
            credit,
            events: VecDeque::new(),
            credits: VecDeque::new(),
            arrived: VecDeque::new(),
            held: VecDeque::new(),
            coalesced: VecDeque::new(),
            coalesced_after: 0,
            tail: 0,
            taker: Taker::default(),
            own: credit,
            front: 0,
            had: Vec::new(),
        }
    }

    fn next_bytes(&mut self, len: usize) -> Vec<u8> {
        let from = self.stream.len();
        let bytes: Vec<u8> = (from..from + len).map(|n| (n % 251) as u8).collect();
        self.stream.extend(&bytes);
        bytes
    }

    fn post(&mut self, bytes: Vec<u8>, is_ordered: bool) {
        let entry = Entry { number: self.entries, bytes, is_ordered };
        self.ring[(self.entries % SLOTS) as usize] = Some(entry.clone());
        self.entries += 1;
        self.coalescer.packets += u32::from(is_ordered);
        self.events.push_back(Event::Entry(entry));
    }

    fn send(&mut self, len: usize) {
        let next = self.coalescer.next(self.credit.head);
        let unacknowledged = self.coalescer.packets - self.credit.packets;
        let has_room = self.entries < self.credit.posted;
        if next == Next::Packet && unacknowledged < WINDOW && has_room {
            let bytes = self.next_bytes(len);
            self.bytes = self.bytes.wrapping_add(len as u32);
            self.post(bytes, true);
            return;
        }
        if next == Next::Packet {
            (self.after, self.start) = (self.coalescer.packets, self.coalescer.tail);
            self.overflow_buffer.clear();
        }
        let len = len.min(OVERFLOW_BUFFER - self.overflow_buffer.len());
        let bytes = self.next_bytes(len);
        self.overflow_buffer.extend(&bytes);
        self.coalescer.tail += len as u64;
        self.events.push_back(Event::Coalesced { after: self.after, start: self.start, bytes });
    }

    fn acknowledge(&mut self) {
        if self.entries < self.credit.posted {
            self.post(Vec::new(), false);
        }
    }

    fn carry(&mut self) {
        match self.events.pop_front() {
            None => {}
            Some(Event::Entry(entry)) => self.arrived.push_back(entry),
            Some(Event::Coalesced { after, start, bytes }) => {
                self.coalesced_after = after;
                assert!(start <= self.tail);
                self.tail += bytes.len() as u64;
                self.coalesced.extend(bytes);
            }
        }
    }

    /// Takes an entry off the ring, and posts its receive again.
    fn hold(&mut self) {
        if let Some(entry) = self.arrived.pop_front() {
            self.own.posted += 1;
            if entry.is_ordered {
                self.held.push_back(entry);
            }
        }
    }

    fn read(&mut self, mut len: usize) {
        while len > 0 {
            if let Take::Coalesced(n) = self.taker.next(self.tail, self.coalesced_after) {
                let n = len.min(n as usize);
                self.had.extend(self.coalesced.drain(..n));
                self.taker.head += n as u64;
                self.own.head = self.taker.head;
                len -= n;
                continue;
            }
            if self.held.is_empty() {
                self.hold();
                if self.held.is_empty() && self.arrived.is_empty() {
                    return;
                }
                continue;
            }
            let bytes = &self.held[0].bytes;
            let n = len.min(bytes.len() - self.front);
            self.had.extend(&bytes[self.front..self.front + n]);
            (self.front, len) = (self.front + n, len - n);
            if self.front == bytes.len() {
                self.own.taken_bytes = self.own.taken_bytes.wrapping_add(bytes.len() as u32);
                self.own.packets += 1;
                self.taker.packets += 1;
                (self.held, self.front) = (self.held.split_off(1), 0);
            }
        }
    }

    fn notify(&mut self) {
        self.credits.push_back(self.own);
    }

    /// Publishes only the words that `words` selects, like a NIC that dies before it has published the other words.
    fn credit(&mut self, words: u8) {
        let Some(credit) = self.credits.pop_front() else { return };
        if words & 1 != 0 {
            self.credit.taken_bytes = credit.taken_bytes;
        }
        if words & 2 != 0 {
            self.credit.head = credit.head;
        }
        if words & 4 != 0 {
            (self.credit.posted, self.credit.packets) = (credit.posted, credit.packets);
        }
    }

    fn kept(&self, number: u32) -> Option<RingEntry> {
        let entry = self.ring[(number % SLOTS) as usize].as_ref();
        let entry = entry.filter(|entry| entry.number == number)?;
        Some(RingEntry { len: entry.bytes.len() as u32, is_ordered: entry.is_ordered })
    }

    /// Moves both ends to TCP after the carrier has died. The program writes `later` more bytes.
    fn fail_over(mut self, later: usize) {
        let sent = SentCounts {
            entries: self.entries,
            packets: self.coalescer.packets,
            bytes: self.bytes,
            after: self.after,
            start: self.start,
            tail: self.coalescer.tail,
        };
        let progress = ReceiverProgress { bytes: self.credit.taken_bytes, head: self.credit.head };
        let tail = tail_of(&sent, &progress, |number| self.kept(number)).unwrap();
        let mut tcp = Vec::new();
        for number in tail.first..tail.first + tail.entries {
            let entry = self.ring[(number % SLOTS) as usize].as_ref().unwrap();
            // A message longer than `INLINE` lies in the pool. Once the receiver has read the message, its memory
            // may be overwritten.
            let had = self.had_of_packets(number);
            let is_there = entry.bytes.len() <= INLINE || !had;
            tcp.extend(entry.bytes.iter().map(|byte| if is_there { *byte } else { OTHER }));
        }
        let from = (tail.head - self.start) as usize;
        tcp.extend(&self.overflow_buffer[from..from + tail.coalesced as usize]);
        assert_eq!(tcp.len(), tail.bytes as usize);
        let record = FailoverRecord { position: tail.position, bytes: tail.bytes };
        assert_eq!(FailoverRecord::decode(&record.encode()), Ok(record));
        tcp.extend(self.next_bytes(later));
        // The receiver first reads everything that has arrived.
        self.read(usize::MAX);
        let consumed = self.own.taken_bytes.wrapping_add(self.own.head as u32);
        let had = skip(&record, consumed).unwrap();
        self.had.extend(&tcp[had as usize..]);
        assert_eq!(self.had, self.stream);
    }

    /// Returns true if the receiver has read the entry `number` completely.
    fn had_of_packets(&self, number: u32) -> bool {
        let waits = |entries: &VecDeque<Entry>| entries.iter().any(|entry| entry.number == number);
        let on_way = self
            .events
            .iter()
            .any(|events| matches!(events, Event::Entry(entry) if entry.number == number));
        !waits(&self.arrived) && !waits(&self.held) && !on_way
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(usize),
    Acknowledge,
    Carry(usize),
    Hold,
    Read(usize),
    Notify,
    Credit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1usize..9).prop_map(Step::Send),
        1 => Just(Step::Acknowledge),
        3 => (1usize..4).prop_map(Step::Carry),
        2 => Just(Step::Hold),
        3 => (1usize..20).prop_map(Step::Read),
        2 => Just(Step::Notify),
        3 => Just(Step::Credit),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_byte_is_lost_or_doubled_whenever_the_carrier_dies(
        steps in steps(), words in 0u8..8, first in prop_oneof![Just(0u32), Just(u32::MAX - 40)],
        unaware in 0usize..4, later in 0usize..9
    ) {
        let mut world = World::new(first);
        for step in steps {
            match step {
                Step::Send(len) => world.send(len),
                Step::Acknowledge => world.acknowledge(),
                Step::Carry(n) => (0..n).for_each(|_| world.carry()),
                Step::Hold => world.hold(),
                Step::Read(len) => world.read(len),
                Step::Notify => world.notify(),
                Step::Credit => world.credit(7),
            }
        }
        world.credit(words);
        // The program writes on until the sender finds that the carrier has died.
        (0..unaware).for_each(|_| world.send(5));
        world.fail_over(later);
    }

    #[test]
    fn arbitrary_bytes_are_no_record(bytes in proptest::array::uniform32(any::<u8>())) {
        prop_assert!(FailoverRecord::decode(&bytes).is_err());
    }

    #[test]
    fn corrupt_record_is_none(position: u32, bytes: u32, at in 0..LEN, by in 1u8..) {
        let mut encoded = FailoverRecord { position, bytes }.encode();
        encoded[at] ^= by;
        prop_assert!(FailoverRecord::decode(&encoded).is_err());
    }

    #[test]
    fn invalid_report_from_a_nic_is_refused_or_bounded(
        progress_bytes: u32, head: u64, lens in proptest::collection::vec(0u32..100, 0..20)
    ) {
        let sent = SentCounts {
            entries: lens.len() as u32,
            packets: lens.len() as u32,
            bytes: lens.iter().sum(),
            after: 3,
            start: 10,
            tail: 40,
        };
        let entry = |n: u32| Some(RingEntry { len: *lens.get(n as usize)?, is_ordered: true });
        let tail = tail_of(&sent, &ReceiverProgress { bytes: progress_bytes, head }, entry);
        if let Ok(tail) = tail {
            prop_assert!(tail.head >= sent.start && tail.head + tail.coalesced == sent.tail);
            prop_assert_eq!(tail.first + tail.entries, sent.entries);
        }
    }
}

/// Checks the action of a sender for each of its states, and the action of a receiver for each of its states.
#[test]
fn each_end_acts_on_its_knowledge_of_the_switch() {
    let at = switch_word(7);
    let entered = at | ENTERED;
    for (tx, switch, fin_sent, owes, expected) in [
        (Tx::Tcp, 0, false, false, SenderAction::Plain),
        (Tx::Vi, at, false, false, SenderAction::TakeBack),
        (Tx::Vi, CANCELLED, false, false, SenderAction::TakeBack),
        (Tx::Vi, entered, false, false, SenderAction::FailoverRecord),
        (Tx::Vi, entered, true, false, SenderAction::Plain),
        (Tx::Back, entered, false, true, SenderAction::Lost),
        (Tx::Back, CANCELLED, false, true, SenderAction::Plain),
        (Tx::Back, entered, false, false, SenderAction::Plain),
    ] {
        assert_eq!(sending(tx, switch, fin_sent, owes), expected, "{tx:?} {switch:x}");
    }
    let known = KNOWN;
    for (known, expected) in [
        (known, ReceiverAction::Doubtful),
        (ReceiverKnowledge { fin: word::FIN_ON_TCP, ..known }, ReceiverAction::Plain),
        (ReceiverKnowledge { switch: CANCELLED, ..known }, ReceiverAction::Doubtful),
        (ReceiverKnowledge { switch: CANCELLED, taken_back: true, ..known }, ReceiverAction::Plain),
        (ReceiverKnowledge { switch: at, ..known }, ReceiverAction::Doubtful),
        (ReceiverKnowledge { switch: at, claimed: true, ..known }, ReceiverAction::RecordOrNot),
        (
            ReceiverKnowledge { switch: at, claimed: true, read: 6, ..known },
            ReceiverAction::RecordOrNot,
        ),
        (
            ReceiverKnowledge { switch: at, claimed: true, read: 8, ..known },
            ReceiverAction::Doubtful,
        ),
        (ReceiverKnowledge { switch: at, finished: true, read: 6, ..known }, ReceiverAction::ToFin),
        (
            ReceiverKnowledge { switch: at, claimed: true, finished: true, ..known },
            ReceiverAction::ToFin,
        ),
        (
            ReceiverKnowledge { switch: entered, claimed: true, ..known },
            ReceiverAction::FailoverRecord,
        ),
        (ReceiverKnowledge { rx: Rx::Tcp, ..known }, ReceiverAction::Plain),
        (ReceiverKnowledge { rx: Rx::Back, ..known }, ReceiverAction::Plain),
        (ReceiverKnowledge { rx: Rx::Back, returning: true, ..known }, ReceiverAction::Lost),
        (
            ReceiverKnowledge { rx: Rx::Vi, switch: entered, ..known },
            ReceiverAction::FailoverRecord,
        ),
        (
            ReceiverKnowledge { rx: Rx::Vi, switch: entered, finished: true, ..known },
            ReceiverAction::ToFin,
        ),
    ] {
        assert_eq!(receiving(known), expected, "{known:?}");
    }
}

const KNOWN: ReceiverKnowledge = ReceiverKnowledge {
    rx: Rx::Granted,
    switch: 0,
    claimed: false,
    read: 7,
    fin: 0,
    finished: false,
    taken_back: false,
    returning: false,
};

/// Checks the actions of two ends whose carrier dies during their rendezvous, after each number of completed steps.
#[test]
fn ends_in_their_rendezvous_agree_on_the_bytes_on_tcp() {
    let at = switch_word(7);
    let mut seen = 0;
    // Number of completed steps: the sender switches, the switch arrives, the receiver claims, the claim arrives,
    // the result arrives.
    for steps in 0..=5 {
        for sent_on_vi in [false, true] {
            let sender = match steps {
                0 => (Tx::Tcp, 0),
                1..=3 => (Tx::Vi, at),
                _ => (Tx::Vi, at | ENTERED),
            };
            let switch = match steps {
                0..=1 => 0,
                2..=4 => at,
                _ => at | ENTERED,
            };
            let known = ReceiverKnowledge { switch, claimed: steps >= 3, ..KNOWN };
            let sends = sending(sender.0, sender.1, false, false);
            let receives = receiving(known);
            // Bytes that TCP has behind the switch.
            let record = FailoverRecord { position: 0, bytes: u32::from(sent_on_vi) }.encode();
            let comes: &[u8] = match sends {
                SenderAction::Plain | SenderAction::TakeBack => b"the program's",
                SenderAction::FailoverRecord => &record,
                SenderAction::Lost => panic!("{steps} steps"),
            };
            let is_record = matches!(begins(comes), FirstBytes::FailoverRecord(_));
            match receives {
                ReceiverAction::Doubtful => assert!(!is_record, "{steps} steps"),
                ReceiverAction::RecordOrNot => assert!(steps == 3 || steps == 4),
                ReceiverAction::FailoverRecord => assert!(is_record, "{steps} steps"),
                other => panic!("{steps} steps: {other:?}"),
            }
            // Missing bytes must never look like the end of the stream.
            assert!(receives != ReceiverAction::Plain);
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn record_and_data_are_distinguished_at_the_first_different_byte() {
    let record = FailoverRecord { position: 0, bytes: 9 };
    let encoded = record.encode();
    for n in 0..LEN {
        assert_eq!(begins(&encoded[..n]), FirstBytes::Perhaps, "{n} bytes");
        let mut other = encoded;
        other[n] ^= 1;
        assert_eq!(begins(&other), FirstBytes::Data, "{n} bytes");
        if n < 16 {
            assert_eq!(begins(&other[..=n]), FirstBytes::Data, "{n} bytes");
        }
    }
    assert_eq!(begins(&encoded), FirstBytes::FailoverRecord(record));
    assert_eq!(begins(b"data"), FirstBytes::Data);
}
