//! The door for `fuzz/`: what a fuzz target needs and no program may have. Only builds with `--cfg fuzzing`
//! have it.

use crate::message::{LINK_LEN, Link, Message, Process, Step};
use crate::pair::{DOORBELLS, Segment, SideIndex};
use crate::table::Ref;
use crate::{meeting, pair, peers, sets, stream};
use core::net::SocketAddr;
use sovia_sys::trace::Secret;
use sovia_sys::{Fd, call, clock};

/// A connection as one of its ends names it.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// The address of the end that called `connect`.
    pub connector: SocketAddr,
    /// The address of the other end.
    pub acceptor: SocketAddr,
    /// The kernel's cookie of the speaker's end.
    pub cookie: u64,
}

impl Connection {
    fn link(self) -> Link {
        Link { connector: self.connector, acceptor: self.acceptor, cookie: self.cookie }
    }

    /// The form in which a segment's table of requests has it.
    pub fn discriminator(self) -> [u8; LINK_LEN] {
        self.link().encode()
    }
}

/// The steps of a first meeting, in their numbers' order.
const STEPS: [Step; 5] = [Step::Hello, Step::Offer, Step::Accept, Step::Ask, Step::Show];

/// What a message says beside its step and its connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Words {
    /// The speaker's process.
    pub pid: i32,
    /// The speaker's nonce.
    pub nonce: u64,
    /// Where the receiver's challenge lies.
    pub place: i32,
    /// What the receiver's challenge says.
    pub shown: Secret,
}

/// A well-formed message of a first meeting; `step` counts from 1.
pub fn message(step: usize, connection: Connection, words: Words) -> Vec<u8> {
    let from = Process { pid: words.pid, nonce: words.nonce };
    let step = STEPS[(step - 1) % STEPS.len()];
    let message = Message::new(step, from, connection.link());
    Message { place: words.place, shown: words.shown, ..message }.encode().to_vec()
}

/// What a message of a first meeting says, encoded again; with its number of the step and its words.
/// `None` if it is none.
pub fn read_message(bytes: &[u8]) -> Option<(Vec<u8>, usize, Words)> {
    let message = Message::decode(bytes).ok()?;
    let step = STEPS.iter().position(|&step| step == message.step)? + 1;
    let Process { pid, nonce } = message.from;
    let words = Words { pid, nonce, place: message.place, shown: message.shown };
    Some((message.encode().to_vec(), step, words))
}

/// What a discriminator of a request says, encoded again. `None` if it names no connection.
pub fn read_discriminator(bytes: &[u8; LINK_LEN]) -> Option<[u8; LINK_LEN]> {
    Link::decode(bytes).map(|link| link.encode())
}

/// Pairs this process with a peer that is this process under another name, as a meeting would: with a
/// segment and the peer's doorbells. Returns the pair's index. `server`: where the peer accepts connections.
pub fn pair_with(
    nonce: u64,
    segment: Segment,
    file: &Fd,
    side: SideIndex,
    server: Option<SocketAddr>,
) -> Option<u32> {
    let id = call::file_id(file.raw()).ok()?;
    let index = pair::add(segment, id, side, Process { pid: call::getpid(), nonce }, None, server)?;
    let door = || Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).ok();
    let doors: Option<Vec<Fd>> = (0..DOORBELLS).map(|_| door()).collect();
    pair::get(index)?.keep_doors(doors?).then_some(index)
}

/// What the progress thread does about once a second: compares what this end has written with what is there, and
/// gives back memory that is not needed.
pub fn audit(at: Ref) {
    at.conn.lock().seen.at = 0;
    stream::audit::look(at.conn, clock::now_ns());
}

/// What the next owner of a lock does whose last owner has died.
pub fn repair(at: Ref) {
    if let Some(mut guard) = at.conn.attached() {
        stream::repair(&mut guard);
    }
}

/// Forgets every meeting, every pair and every peer. No connection may be attached.
pub fn forget_peers() {
    meeting::leave_all();
    pair::leave_all(sets::forget_pair);
    peers::leave_all();
}
