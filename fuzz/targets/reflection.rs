//! A VI between hosts, as its NIC sees it. The peer's NIC sends anything, and the program writes anything to its side
//! of the segment.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_reflect::message::Message;
use sovia_reflect::{Reflection, Sink};
use sovia_ring::Segment;
use std::sync::{Arc, OnceLock};

const VI: u32 = 0;
const PROGRAM: usize = 1;
/// Messages of one pass: more than a ring's entries and what goes beside them.
const MOST: usize = 4096;

/// Takes messages for the far NIC.
struct Far {
    room: usize,
    taken: usize,
}

impl Sink for Far {
    fn has_room(&mut self) -> bool {
        self.room > 0
    }

    fn append(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        assert!(self.room > 0, "asked for room before");
        (self.room, self.taken) = (self.room - 1, self.taken + 1);
        let mut bytes = Vec::new();
        write(&mut bytes);
        let message = Message::decode(&bytes);
        assert!(message.is_ok(), "what this NIC says the other one understands: {message:?}");
    }
}

fn segment() -> Arc<Segment> {
    static SEGMENT: OnceLock<Arc<Segment>> = OnceLock::new();
    SEGMENT.get_or_init(|| Arc::new(Segment::create().expect("a segment").0)).clone()
}

/// A word of a direction, or a slot of its ring.
fn scribble(segment: &Segment, input: &mut Input<'_>) {
    let from = input.below(2);
    let direction = segment.direction(VI, from);
    let (place, value) = (input.below(8), input.u64());
    match input.below(5) {
        0 => direction.writer.store(place, value),
        1 => direction.reader.store(place, value),
        2 => direction.path.store(place, value),
        3 => {
            let slots = segment.slots(VI, from);
            let entry = sovia_ring::ring::Entry {
                immediate: value as u32,
                len: u32::from(input.u16()),
                pool_offset: input.flag().then(|| (value >> 32) as u32),
            };
            let n = u32::from(input.u8());
            slots[n as usize % slots.len()].publish(n, entry);
        }
        _ => direction.credit.post(value as u32),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let segment = segment();
    segment.recycle(VI, false);
    let mut reflection = Reflection::new(segment.clone(), VI, PROGRAM);
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        match input.u8() % 4 {
            0 => scribble(&segment, &mut input),
            1 => {
                let room = input.below(64);
                let mut far = Far { room, taken: 0 };
                if reflection.collect(&mut far).is_err() {
                    return;
                }
                assert!(far.taken <= MOST);
            }
            2 => {
                let len = input.below(80);
                if let Ok(message) = Message::decode(input.bytes(len))
                    && reflection.apply(&message).is_err()
                {
                    return;
                }
            }
            _ => reflection.end(input.flag()),
        }
    }
});
