//! Parses the terms, packets and names of connections that one end of a stream sends to the other. Also runs a
//! whole session that receives any messages that the fuzzer likes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_proto::configuration::{Configuration, PRESETS, Transfer};
use sovia_proto::packet::{Immediate, Written};
use sovia_proto::rendezvous::{LINK, Link};
use sovia_proto::session::{Arrival, Body, Leave, Offer, Session};
use sovia_proto::wakeup::Terms;
use std::sync::Once;

/// Checks that parsed terms are emitted unchanged, and that both ends come to the same agreement.
fn parse(bytes: &[u8]) {
    if let Ok(theirs) = Terms::decode(bytes) {
        assert_eq!(Terms::decode(&theirs.encode()), Ok(theirs));
        for (_, configuration) in PRESETS {
            let ours = Terms::of(configuration);
            let agreed = ours.agree(theirs);
            assert_eq!(agreed.is_ok(), ours.handshake == theirs.handshake);
            if let Ok(agreed) = agreed {
                assert_eq!(theirs.agree(ours), Ok(agreed));
                assert_eq!(Terms::decode(&agreed.encode()), Ok(agreed), "possible terms");
            }
        }
    }
    if let Some(&bits) = bytes.first_chunk()
        && let Ok(immediate) = Immediate::decode(u32::from_le_bytes(bits))
    {
        assert_eq!(Immediate::decode(immediate.encode()), Ok(immediate));
    }
    if let Some(&bits) = bytes.first_chunk()
        && let Some(written) = Written::decode(u32::from_le_bytes(bits))
    {
        assert_eq!(written.encode(), u32::from_le_bytes(bits));
    }
    if let Ok(leave) = Leave::decode(bytes) {
        assert_eq!(leave.encode(), bytes);
    }
    let mut link = [0; LINK];
    let len = bytes.len().min(LINK);
    link[..len].copy_from_slice(&bytes[..len]);
    if let Some(link) = Link::decode(&link) {
        assert_eq!(Link::decode(&link.encode()), Some(link));
    }
}

/// An honest end whose peer is the fuzzer.
struct Honest {
    session: Session,
    window: u16,
    /// Data packets that the program has not read.
    held: usize,
    arrived: usize,
}

impl Honest {
    fn new(configuration: &Configuration) -> Honest {
        let mut session = Session::new(configuration);
        session.connecting().expect("a new stream");
        session.connected().expect("it was connecting");
        Honest { session, window: configuration.flow.window, held: 0, arrived: 0 }
    }

    fn receive(&mut self, immediate: u32, len: u32, body: &[u8]) {
        match self.session.arrived(Some(immediate), len, body) {
            Ok(Arrival::Data | Arrival::Written(_)) => {
                self.held += 1;
                self.arrived += 1;
            }
            Ok(Arrival::Nothing) => {}
            Err(_violation) => self.session.lost(),
        }
    }

    /// Everything that it has to say.
    fn speak(&mut self) {
        for count in 0.. {
            assert!(count < 100, "an end does not stop sending");
            let Some(packet) = self.session.outgoing() else { break };
            if let Body::Terms(terms) = packet.body {
                assert_eq!(Terms::decode(&terms.encode()), Ok(terms));
            }
        }
        assert!(self.session.unacknowledged() <= self.window);
        assert!(self.held <= usize::from(u16::MAX));
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(12) {
            0 => self.receive(input.u64() as u32, u32::from(input.u16()), &[]),
            1 => {
                let len = input.below(24);
                self.receive(input.u64() as u32, len as u32, input.bytes(len));
            }
            // A packet that may be: of some kind, with some acknowledgements.
            2..=5 => {
                let (kind, acks, len) =
                    (u32::from(input.u8() % 9), u32::from(input.u8() % 40), input.u16());
                let body = [0; 16];
                // Of a packet that is written by RDMA the length stands here.
                let body = if input.flag() { &body[..4] } else { &body };
                let beside = if kind == 8 { u32::from(len) } else { acks };
                self.receive(kind << 24 | beside, len.into(), body);
            }
            6 => {
                let bytes = 1 + usize::from(input.u16());
                let way = [None, Some(Transfer::Copy), Some(Transfer::Reg)][input.below(3)];
                if let Ok(
                    Offer::Copy { len, .. } | Offer::Register { len, .. } | Offer::Join { len, .. },
                ) = self.session.write(bytes, way, way.is_none())
                {
                    assert!(len > 0 && len as usize <= bytes);
                }
            }
            7 if self.held > 0 => {
                self.held -= 1;
                self.session.consumed();
            }
            8 => self.session.reading(u32::from(input.u16())),
            9 => match input.below(6) {
                0 => self.session.shutdown(),
                1 => self.session.shutdown_reading(),
                2 => self.session.forsake(),
                3 => self.session.abort(),
                4 => self.session.flush(),
                _ => self.session.set_combining(input.flag()),
            },
            10 => {
                if let Some(batch) = self.session.batch() {
                    self.session.timer(batch);
                }
            }
            _ => self.speak(),
        }
    }
}

fn story(bytes: &[u8]) -> Honest {
    let mut input = Input::new(bytes);
    let (_, configuration) = PRESETS[input.below(PRESETS.len())];
    let mut end = Honest::new(&configuration);
    if input.flag() {
        // Begin with the peer's terms, as an honest peer may do.
        let terms = Terms::of(&configuration).encode();
        end.receive(6 << 24, terms.len() as u32, &terms);
    }
    while !input.is_empty() {
        end.step(&mut input);
        end.speak();
    }
    end
}

fuzz_target!(|bytes: &[u8]| {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        // The papers' simplest configuration: terms, then a data packet.
        let end = story(&[0, 1, 2, 1, 0, 5, 0]);
        assert_eq!((end.arrived, end.session.received()), (1, 5), "nothing is tested");
    });
    parse(bytes);
    story(bytes);
});
