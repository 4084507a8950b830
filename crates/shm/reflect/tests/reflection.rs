//! Two programs with a segment each, and the NICs that reflect one VI between them.

use core::sync::atomic::Ordering;
use proptest::prelude::*;
use sovia_proto::packet::{Immediate, Kind};
use sovia_proto::path::{self, CANCELLED, ENTERED, Grant};
use sovia_proto::word;
use sovia_reflect::message::Message;
use sovia_reflect::{Reflection, Sink};
use sovia_ring::endpoint::OverflowBuffer;
use sovia_ring::layout::{DISCRIMINATOR, Direction};
use sovia_ring::{Endpoint, Segment};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages on their way from one NIC to the other.
#[derive(Default)]
struct Channel {
    messages: VecDeque<Vec<u8>>,
    room: usize,
}

impl Sink for Channel {
    fn has_room(&mut self) -> bool {
        self.room > 0
    }

    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        self.room -= 1;
        let mut bytes = Vec::new();
        write(&mut bytes);
        self.messages.push_back(bytes);
    }
}

/// A program with its segment and its NIC.
struct Host {
    segment: Arc<Segment>,
    endpoint: Endpoint,
    nic: Reflection,
    /// Messages that the program's NIC has sent.
    said: Channel,
    /// Number of coalesced bytes sent and taken.
    tail: u64,
    head: u64,
}

const VI: u32 = 0;

impl Host {
    fn new() -> Host {
        let (segment, _fd) = Segment::create().unwrap();
        assert_eq!(segment.request_connection(0, &[0; DISCRIMINATOR]), Some(VI));
        let segment = Arc::new(segment);
        // SAFETY: `Host` keeps the segment mapped as long as the endpoint, and one thread uses the endpoint.
        let endpoint = unsafe { Endpoint::new(&segment, VI, 0) };
        let nic = Reflection::new(segment.clone(), VI, 0);
        Host { segment, endpoint, nic, said: Channel::default(), tail: 0, head: 0 }
    }

    /// Returns the direction in which the program sends.
    fn tx(&self) -> &Direction {
        self.segment.direction(VI, 0)
    }

    fn rx(&self) -> &Direction {
        self.segment.direction(VI, 1)
    }

    /// Runs the NIC's `collect`, with room for `room` messages.
    fn collect(&mut self, room: usize) -> bool {
        self.said.room = room;
        self.nic.collect(&mut self.said).unwrap()
    }

    fn send(&mut self, kind: Kind, bytes: &[u8]) -> bool {
        self.endpoint.tx.send(Immediate { kind, acks: 0 }.encode(), bytes).unwrap()
    }

    fn coalesce(&mut self, bytes: &[u8], packets: u32) {
        let line = &self.tx().writer.0;
        let taken = self.tx().reader.load(word::HEAD);
        if taken == self.tail {
            line[word::AFTER].store(packets.into(), Ordering::Relaxed);
            line[word::START].store(self.tail, Ordering::Relaxed);
        }
        let start = line[word::START].load(Ordering::Relaxed);
        let at = ((self.tail - start) % OverflowBuffer::LEN as u64) as usize;
        assert!(self.endpoint.tx.overflow_buffer().write(at, bytes));
        self.tail += bytes.len() as u64;
        self.tx().writer.store(word::TAIL, self.tail);
    }

    /// Receives the next message, or else the coalesced bytes.
    fn receive(&mut self) -> Option<Vec<u8>> {
        if let Some(entry) = self.endpoint.rx.head().unwrap() {
            let mut bytes = vec![0; entry.len as usize];
            self.endpoint.rx.copy_head(&entry, 0, &mut bytes[..]).unwrap();
            if let Some(position) = self.endpoint.rx.advance(&entry).unwrap() {
                self.endpoint.rx.release(position);
            }
            return Some(bytes);
        }
        let line = &self.rx().writer.0;
        let tail = line[word::TAIL].load(Ordering::Acquire);
        let start = line[word::START].load(Ordering::Relaxed);
        let mut bytes = vec![0; (tail - self.head) as usize];
        let at = ((self.head - start) % OverflowBuffer::LEN as u64) as usize;
        assert!(self.endpoint.rx.overflow_buffer().read(at, &mut bytes[..]));
        self.head = tail;
        self.rx().reader.store(word::HEAD, tail);
        (!bytes.is_empty()).then_some(bytes)
    }
}

/// Makes the NIC of `to` publish the next message from `from`. Returns false if there is none.
fn deliver(from: &mut Host, to: &mut Host) -> bool {
    let Some(bytes) = from.said.messages.pop_front() else { return false };
    to.nic.apply(&Message::decode(&bytes).unwrap()).unwrap();
    true
}

/// Runs both NICs until there is nothing left to send.
fn settle(a: &mut Host, b: &mut Host) {
    loop {
        a.collect(100);
        b.collect(100);
        if !deliver(a, b) & !deliver(b, a) {
            return;
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The sender sends a message of this length.
    Send(usize),
    /// The sender coalesces this number of bytes.
    Coalesce(usize),
    /// The receiver receives.
    Receive,
    /// Both NICs collect. The sender's NIC has room for this number of messages, the receiver's for one.
    Collect(usize),
    /// Each NIC publishes one message.
    Deliver,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        prop_oneof![0usize..200, 0usize..40_000].prop_map(|len| Step::Send(len.max(1))),
        (1usize..100_000).prop_map(Step::Coalesce),
        Just(Step::Receive),
        Just(Step::Receive),
        (0usize..4).prop_map(Step::Collect),
        Just(Step::Deliver),
        Just(Step::Deliver),
        Just(Step::Deliver),
    ]
}

proptest! {
    /// Delays the NICs at random, and gives them little room.
    #[test]
    fn the_far_program_receives_every_byte_in_order(
        steps in proptest::collection::vec(step(), 1..400)
    ) {
        let (mut a, mut b) = (Host::new(), Host::new());
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        let mut packets = 0;
        let mut next = 0u8;
        let mut bytes = |len: usize| {
            let bytes: Vec<u8> = (0..len).map(|i| next.wrapping_add(i as u8)).collect();
            next = next.wrapping_add(len as u8);
            bytes
        };
        for step in steps {
            let drained = a.tx().reader.load(word::HEAD) == a.tail;
            match step {
                // The protocol sends no data packet while there are coalesced bytes.
                Step::Send(len) if drained => {
                    let message = bytes(len);
                    if a.send(Kind::Data, &message) {
                        sent.extend(message);
                        packets += 1;
                    } else {
                        bytes(256 - len % 256);
                    }
                }
                Step::Coalesce(len) if a.tail - b.head + len as u64 <= 1 << 20 => {
                    let piece = bytes(len);
                    a.coalesce(&piece, packets);
                    sent.extend(piece);
                }
                Step::Receive => received.extend(b.receive().unwrap_or_default()),
                Step::Collect(room) => {
                    a.collect(room);
                    b.collect(1);
                }
                Step::Deliver => {
                    deliver(&mut a, &mut b);
                    deliver(&mut b, &mut a);
                }
                _ => {}
            }
            prop_assert_eq!(&received[..], &sent[..received.len()]);
        }
        settle(&mut a, &mut b);
        while let Some(more) = b.receive() {
            received.extend(more);
            settle(&mut a, &mut b);
        }
        prop_assert_eq!(received, sent);
    }
}

/// Switches the sender to the VI at byte `n`.
fn switch(host: &Host, n: u64) {
    host.tx().path.store(word::FROM, n);
    host.tx().path.store(word::SWITCH, path::switch_word(n));
}

fn say_grant(host: &Host, grant: Grant) {
    host.rx().path.store(word::GRANT, grant as u64);
}

fn answer(host: &Host) -> u64 {
    host.rx().writer.load(word::ANSWER)
}

fn switch_seen(host: &Host) -> u64 {
    host.rx().path.load(word::SWITCH)
}

fn claim(host: &Host) {
    host.rx().reader.store(word::CLAIM, 1);
}

#[test]
fn a_switch_is_the_receivers_once_its_claim_has_come_to_the_sender() {
    let (mut a, mut b) = (Host::new(), Host::new());
    say_grant(&b, Grant::Granted);
    settle(&mut a, &mut b);
    assert_eq!(a.tx().path.load(word::GRANT), Grant::Granted as u64);
    switch(&a, 7);
    settle(&mut a, &mut b);
    assert_eq!(switch_seen(&b), path::switch_word(7));
    claim(&b);
    settle(&mut a, &mut b);
    assert_eq!(switch_seen(&b), path::switch_word(7) | ENTERED);
    assert_eq!(a.tx().path.load(word::SWITCH), switch_seen(&b));
}

#[test]
fn a_claim_that_comes_after_the_switch_was_taken_back_is_lost() {
    let (mut a, mut b) = (Host::new(), Host::new());
    switch(&a, 7);
    settle(&mut a, &mut b);
    claim(&b);
    a.tx().path.store(word::TAKEN, 1);
    a.tx().path.store(word::SWITCH, CANCELLED);
    settle(&mut a, &mut b);
    assert_eq!(switch_seen(&b), CANCELLED);
}

#[test]
fn revocation_that_a_switch_crossed_is_confirmed_behind_the_switch() {
    let (mut a, mut b) = (Host::new(), Host::new());
    say_grant(&b, Grant::Granted);
    settle(&mut a, &mut b);
    switch(&a, 7);
    say_grant(&b, Grant::Revoked);
    b.collect(100);
    assert_eq!(answer(&b), 0);
    loop {
        a.collect(1);
        let arrived = deliver(&mut a, &mut b) | deliver(&mut b, &mut a);
        if answer(&b) & word::CONFIRMED != 0 {
            assert_eq!(switch_seen(&b), path::switch_word(7));
        }
        if !arrived {
            break;
        }
    }
    assert_eq!(answer(&b), word::CONFIRMED);
}

#[test]
fn a_return_is_accepted_with_what_is_left_unless_the_sender_has_refused() {
    for refused in [false, true] {
        let (mut a, mut b) = (Host::new(), Host::new());
        a.send(Kind::Data, b"unread");
        settle(&mut a, &mut b);
        if refused {
            a.tx().path.store(word::RETURNED, path::REFUSED);
        }
        let left = sovia_ring::undelivered::LeftMessage::Inline(b"unread");
        b.endpoint.rx.undelivered().leave(0, left);
        b.rx().reader.store(word::UNDELIVERED, 1);
        b.rx().path.store(word::RETURNED, path::returned_word(6));
        settle(&mut a, &mut b);
        let (bits, word) = match refused {
            false => (word::ACCEPTED, path::returned_word(6)),
            true => (word::REFUSED, path::REFUSED),
        };
        assert_eq!(answer(&b), bits);
        assert_eq!(a.tx().path.load(word::RETURNED), word);
        let mut out = [0; 6];
        a.endpoint.tx.undelivered().copy(0, 0, &mut out);
        assert_eq!(&out, b"unread");
    }
}

#[test]
fn end_is_reported_after_all_messages_and_nothing_follows() {
    let (mut a, mut b) = (Host::new(), Host::new());
    for _ in 0..10 {
        assert!(a.send(Kind::Data, b"last words"));
    }
    a.nic.end(true);
    while !a.collect(1) {
        assert!(!a.nic.has_ended());
    }
    while deliver(&mut a, &mut b) {
        let gone = b.rx().writer.load(word::GONE) != 0;
        assert_eq!(gone, a.said.messages.is_empty());
    }
    assert!(a.nic.has_ended() && b.nic.has_come_to_end());
    assert!(b.nic.apply(&Message::Gone(word::DIED)).is_err());
    assert_eq!((0..11).filter_map(|_| b.receive()).count(), 10);
}

/// A program that sees the word acts on the end of TCP, so it must also see the FIN packet.
#[test]
fn the_word_of_the_end_is_published_behind_its_packet() {
    for _ in 0..500 {
        let (mut a, mut b) = (Host::new(), Host::new());
        assert!(a.send(Kind::Fin, b""));
        a.collect(1);
        let segment = b.segment.clone();
        let program = std::thread::spawn(move || {
            while segment.direction(VI, 1).writer.load(word::FIN) == 0 {
                std::hint::spin_loop();
            }
            segment.slots(VI, 1)[0].holds(0)
        });
        assert!(deliver(&mut a, &mut b));
        assert!(program.join().unwrap());
    }
}

#[test]
fn a_far_nic_that_lies_is_found_out() {
    let (mut a, mut b) = (Host::new(), Host::new());
    let entry = sovia_ring::ring::Entry { immediate: 1 << 24, len: 1, pool_offset: None };
    let far = sovia_ring::ring::Entry { pool_offset: Some(2 << 20), ..entry };
    let coalesced =
        |start, position, bytes| Message::Coalesced { after: 0, start, position, bytes };
    let consumed = |posted, head| {
        Message::Consumed(sovia_reflect::message::Consumed { posted, head, ..Default::default() })
    };
    let bytes = vec![0; 100];
    for lie in [
        Message::Entry(1, entry, b"x"),
        Message::Entry(0, far, b"x"),
        coalesced(0, 1, &bytes),
        coalesced(50, 0, &bytes),
        consumed(65, 0),
        consumed(64, 1),
    ] {
        assert!(b.nic.apply(&lie).is_err(), "{lie:?}");
    }
    // Nothing of the invalid messages has been published.
    assert_eq!(b.receive(), None);
    assert!(a.send(Kind::Data, b"x"));
    settle(&mut a, &mut b);
    assert_eq!(b.receive(), Some(b"x".to_vec()));
}

proptest! {
    /// Applies random messages. The NIC publishes or refuses each one, and never panics.
    #[test]
    fn no_message_of_a_far_nic_makes_a_nic_panic(
        messages in proptest::collection::vec(
            (0u8..10, proptest::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..200)),
            1..40
        )
    ) {
        let mut host = Host::new();
        for (kind, rest) in messages {
            let mut bytes = vec![kind];
            bytes.extend(rest);
            if let Ok(message) = Message::decode(&bytes) {
                let _ = host.nic.apply(&message);
            }
            host.said.room = 10;
            let _ = host.nic.collect(&mut host.said);
        }
    }
}
