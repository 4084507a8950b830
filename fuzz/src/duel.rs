//! A connection that runs on a VI: the engine at one end, a hostile peer that has the segment at the other.

use crate::hand::{self, Rule};
use crate::honest::Honest;
use crate::place::{self, BULK, Places};
use crate::tcp::Ends;
use sovia_ring::layout::OVERFLOW_BUFFER;
use sovia_ring::pool::POOL;
use sovia_ring::{Endpoint, Segment};
use sovia_sockets::conn::Role;
use sovia_sockets::{fuzzing, pair};
use sovia_sys::Fd;
use std::io::Write;
use std::net::TcpStream;
use std::sync::OnceLock;

/// The hostile peer's nonce: any but the honest side's.
const NONCE: u64 = 0x6475_656c;
/// Transfers in which two ends that have a segment meet.
const TRANSFERS: usize = 6;

/// Words of a direction, as `crates/sockets/src/stream` numbers them.
pub mod word {
    /// Writer's line: position of the end of the coalesced bytes.
    pub const TAIL: usize = 0;
    /// Writer's line: ordered packets before the coalesced bytes.
    pub const AFTER: usize = 1;
    /// Writer's line: position of the first byte in the overflow buffer.
    pub const START: usize = 2;
    /// Writer's line: the window.
    pub const WINDOW: usize = 4;
    /// Reader's line: coalesced bytes taken.
    pub const HEAD: usize = 0;
    /// Path line: the sender's switch.
    pub const SWITCH: usize = 0;
    /// Path line: the receiver's grant.
    pub const GRANT: usize = 1;
    /// Path line: bytes returned by a receiver that revoked, plus one.
    pub const RETURNED: usize = 2;
    /// Path line: bytes that went over TCP before the switch.
    pub const FROM: usize = 5;
}

/// Returns a random mark. The honest side sends it, and it surrounds the receive areas, so no call may hand it
/// out.
pub fn mark() -> [u8; 8] {
    static MARK: OnceLock<[u8; 8]> = OnceLock::new();
    *MARK.get_or_init(|| {
        let mut mark = [0; 8];
        let _ = sovia_sys::call::getrandom(&mut mark);
        mark
    })
}

/// `len` bytes full of marks.
pub fn marked(len: usize) -> Vec<u8> {
    mark().into_iter().cycle().take(len).collect()
}

/// Checks that `bytes`, which a call has handed out, contain no mark.
///
/// # Panics
/// If there is a mark.
pub fn expect_unmarked(bytes: &[u8]) {
    let mark = mark();
    let found = bytes.windows(mark.len()).any(|window| window == mark);
    assert!(!found, "bytes from outside the receive buffer");
}

/// Both sides.
#[derive(Debug)]
pub struct Duel {
    /// The honest side.
    pub honest: Honest,
    /// The hostile side's end of the anchor.
    pub tcp: TcpStream,
    /// The hostile side's mapping of the segment.
    pub segment: Segment,
    /// The hostile side's end of the VI, for as long as it plays by the rules.
    pub end: Endpoint,
    /// Offsets of the VI's words.
    pub places: Places,
    /// The VI.
    pub vi: u32,
    /// The hostile side's side.
    pub side: usize,
    /// Bytes that the hostile side has put on TCP.
    pub on_tcp: u64,
    /// Address at which the honest side has mapped the segment.
    base: usize,
}

impl Duel {
    /// A connection that has its VI. `None` if the two ends have not met, which is the fault of `rules`: the peer's
    /// hand is in the segment from the beginning.
    ///
    /// # Panics
    /// Where the system gives no memory or sockets.
    pub fn new(role: Role, rules: &[Rule]) -> Option<Duel> {
        let ends = Ends::new();
        let (own, theirs) = match role {
            Role::Connector => (&ends.connector, &ends.acceptor),
            Role::Acceptor => (&ends.acceptor, &ends.connector),
        };
        let side = match role {
            Role::Connector => 1,
            Role::Acceptor => 0,
        };
        let connection = ends.named_by(theirs);
        let (segment, file): (Segment, Fd) = Segment::create().expect("no memory");
        let mine = Segment::attach(&file).expect("the segment just made");
        let server = (side == 1).then_some(connection.acceptor);
        let index = fuzzing::pair_with(NONCE, segment, &file, side ^ 1, server).expect("no pair");
        let base = place::base(&pair::get(index)?.segment);
        let honest = Honest::new(own.try_clone().expect("no descriptor"), role);
        let tcp = theirs.try_clone().expect("no descriptor");
        let mut on_tcp = 0;
        if side == 0 {
            // Use the second VI, so that another VI's memory surrounds its pools.
            mine.request_connection(0, &[0; _]);
            mine.request_connection(0, &connection.discriminator());
        }
        for _ in 0..TRANSFERS {
            hand::during(base, rules.to_vec(), || {
                if side == 0 {
                    on_tcp += (&tcp).write(b"x").unwrap_or(0) as u64;
                    let _ = honest.receive(&mut [0; 8], false);
                } else {
                    let _ = honest.send(b"x");
                }
            });
            if side == 1 {
                let mut found = Vec::new();
                mine.pending(1, |request, _| found.push(request));
                for request in found {
                    mine.accept(1, request);
                }
            }
        }
        if !honest.is_attached() {
            return None;
        }
        let vi = honest.vi();
        let places = Places::of(&mine, vi);
        // SAFETY: the segment stays mapped while the hostile side has it, and one thread uses the end.
        let end = unsafe { Endpoint::new(&mine, vi, side) };
        let mut duel = Duel { honest, tcp, segment: mine, end, places, vi, side, on_tcp, base };
        duel.surround();
        Some(duel)
    }

    /// Puts marks around the range that the honest side may receive from.
    fn surround(&mut self) {
        const LEN: usize = 512;
        let base = place::base(&self.segment);
        let from = self.places.bulks[self.side];
        for at in [from - LEN, from + BULK] {
            for (i, byte) in marked(LEN).into_iter().enumerate() {
                if at + i < sovia_ring::layout::SEGMENT {
                    // SAFETY: within the segment, in the pools; only atomics and bytes lie there.
                    unsafe { ((base + at + i) as *mut u8).write_volatile(byte) };
                }
            }
        }
    }

    /// Makes a call of the honest side's with the peer's hand in the segment.
    pub fn during<R>(&self, rules: &mut Vec<Rule>, call: impl FnOnce(&Honest) -> R) -> R {
        hand::during(self.base, std::mem::take(rules), || call(&self.honest))
    }

    /// The word of the control block of the direction in which `from` writes.
    pub fn write(&self, offset: usize, change: hand::Change) {
        hand::write(self.base, offset, change);
    }

    /// Whether memory that the honest side has been lent lies where it may: in its own direction's pool to write,
    /// in the peer's to read.
    pub fn is_in_pool(&self, memory: *const u8, len: usize, to_write: bool) -> bool {
        let from = if to_write { self.side ^ 1 } else { self.side };
        let pool = self.base + self.places.bulks[from];
        memory.addr() >= pool && memory.addr() + len <= pool + POOL as usize
    }

    /// Ends the story.
    pub fn end(self) {
        let Duel { honest, segment, .. } = self;
        drop(honest);
        fuzzing::forget_peers();
        drop(segment);
    }
}

/// Size of an overflow buffer in bytes.
pub const COALESCED_MAX: usize = OVERFLOW_BUFFER;
