//! Measures how much memory peers cost an engine, by counting allocations.

use core::cell::Cell;
use sovia_emp::{Array, Config, Engine, Host, Io, Memory, Piece, Sink, Status};
use sovia_link::Time;
use sovia_link::wire::EndId;
use std::alloc::{GlobalAlloc, Layout, System};

/// Counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    // An ending thread may free memory after its thread-local variables are gone. The count ignores these bytes.
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes));
}

// SAFETY: all calls go unchanged to the system's allocator. The counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller guarantees a valid layout, and the system's allocator gets this layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: `at` comes from the system's allocator, because this allocator passes on all its results. The caller
        // guarantees the layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An address as long as an Internet address with port and scope.
type Place = [u8; 24];

const KEY: u64 = 7;
const FRAME: usize = 256;

fn place(number: usize) -> Place {
    let mut place = [0; 24];
    place[..8].copy_from_slice(&number.to_le_bytes());
    place
}

/// Frames on their way, in memory that was allocated before.
struct Frames(Vec<([u8; FRAME], usize)>);

impl Sink<Place> for Frames {
    fn send(&mut self, _: &Place, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        assert!(self.0.len() < self.0.capacity());
        let mut frame = [0; FRAME];
        if let Some(len) = write(&mut frame) {
            self.0.push((frame, len));
        }
        true
    }
}

/// Memory whose contents do not matter.
struct Nothing;

impl Memory for Nothing {
    fn read(&self, _: u64, into: &mut [u8]) {
        into.fill(0);
    }

    fn write(&self, _: u64, _: &[u8]) {}
}

struct End {
    engine: Engine<Place>,
    array: Array,
    host: Host,
    frames: Frames,
    /// Bytes that the engine has allocated since its creation.
    bytes: i64,
}

impl End {
    fn new(name: u64) -> End {
        End {
            engine: Engine::new(Config::new(EndId(name), KEY), FRAME),
            array: Array::new(),
            host: Host::new(),
            frames: Frames(Vec::with_capacity(64)),
            bytes: 0,
        }
    }

    fn add_peer(&mut self, number: usize) -> u16 {
        let before = BYTES.get();
        let node = self.engine.add_peer(&self.array, place(number), KEY);
        self.bytes += BYTES.get() - before;
        node.expect("a number")
    }

    fn with(&mut self, now: Time, work: impl FnOnce(&mut Engine<Place>, &mut Io<'_, Place>)) {
        let before = BYTES.get();
        let mut io = Io { array: &self.array, memory: &Nothing, sink: &mut self.frames, now };
        work(&mut self.engine, &mut io);
        self.bytes += BYTES.get() - before;
    }

    /// Runs one round and passes the frames to `other`. Returns true if there were frames.
    fn step(&mut self, now: Time, own: usize, other: &mut End) -> bool {
        self.with(now, Engine::poll);
        self.with(now, Engine::acknowledge);
        let any = !self.frames.0.is_empty();
        for (frame, len) in self.frames.0.drain(..) {
            other.with(now, |engine, io| engine.frame(io, &place(own), &frame[..len]));
        }
        any
    }
}

/// Checks that peers without transfers cost at most 64 bytes each, both before and after messages.
#[test]
fn peers_cost_64_bytes_each_once_their_messages_are_over() {
    const PEERS: usize = 1 << 14;
    const SPOKEN_TO: usize = 1000;
    let mut hub = End::new(1);
    for number in 1..=PEERS {
        hub.add_peer(number);
    }
    assert!(hub.bytes <= 64 * PEERS as i64, "{} bytes", hub.bytes);
    let piece = Piece { address: 4096, length: 4 };
    let mut now = Time::ZERO;
    let mut after_the_first = None;
    for node in 0..SPOKEN_TO {
        let mut other = End::new(2 + node as u64);
        let there = other.add_peer(0);
        let receive =
            other.host.post_receive(&other.array, Some(there), Some(5), &[piece]).unwrap();
        let send = hub.host.post_send(&hub.array, node as u16, 5, &[piece]).unwrap();
        let answer = other.host.post_send(&other.array, there, 6, &[piece]).unwrap();
        let last = hub.host.post_receive(&hub.array, Some(node as u16), Some(6), &[piece]).unwrap();
        loop {
            let sent = hub.step(now, 0, &mut other);
            let answered = other.step(now, node + 1, &mut hub);
            if !sent && !answered {
                let Some(next) = hub.engine.next_timer().or(other.engine.next_timer()) else {
                    break;
                };
                now = now.max(next);
            }
        }
        for handle in [send, last] {
            let outcome = hub.host.test(&hub.array, handle).unwrap().expect("an end");
            assert_eq!(outcome.status, Status::Done);
        }
        for handle in [receive, answer] {
            let outcome = other.host.test(&other.array, handle).unwrap().expect("an end");
            assert_eq!(outcome.status, Status::Done);
        }
        assert_eq!(hub.engine.busy_peers(), 0);
        let first = *after_the_first.get_or_insert(hub.bytes);
        assert!(hub.bytes <= first, "{} bytes more after {node} peers", hub.bytes - first);
    }
}
