//! Interface for `fuzz/`, which no program may use. Only builds with `--cfg fuzzing` contain it.

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
    /// Address of the end that called `connect`.
    pub connector: SocketAddr,
    /// Address of the other end.
    pub acceptor: SocketAddr,
    /// Kernel's cookie of the end that sends the message.
    pub cookie: u64,
}

impl Connection {
    fn link(self) -> Link {
        Link { connector: self.connector, acceptor: self.acceptor, cookie: self.cookie }
    }

    /// Returns the connection's form in a segment's table of requests.
    pub fn discriminator(self) -> [u8; LINK_LEN] {
        self.link().encode()
    }
}

/// Steps of a first rendezvous, in the order of their numbers.
const STEPS: [Step; 5] = [Step::Hello, Step::Offer, Step::Accept, Step::Ask, Step::Show];

/// Content of a message besides its step and its connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Words {
    /// Process that sends the message.
    pub pid: i32,
    /// Nonce of this process.
    pub nonce: u64,
    /// Descriptor number of the receiver's challenge.
    pub place: i32,
    /// Content of the receiver's challenge.
    pub shown: Secret,
}

/// Returns a well-formed message of a first rendezvous. `step` counts from 1.
pub fn message(step: usize, connection: Connection, words: Words) -> Vec<u8> {
    let from = Process { pid: words.pid, nonce: words.nonce };
    let step = STEPS[(step - 1) % STEPS.len()];
    let message = Message::new(step, from, connection.link());
    Message { place: words.place, shown: words.shown, ..message }.encode().to_vec()
}

/// Decodes a message of a first rendezvous, and encodes it again. Also returns its step and its words. `None` if it is
/// not valid.
pub fn read_message(bytes: &[u8]) -> Option<(Vec<u8>, usize, Words)> {
    let message = Message::decode(bytes).ok()?;
    let step = STEPS.iter().position(|&step| step == message.step)? + 1;
    let Process { pid, nonce } = message.from;
    let words = Words { pid, nonce, place: message.place, shown: message.shown };
    Some((message.encode().to_vec(), step, words))
}

/// Decodes a request's discriminator, and encodes it again. `None` if it names no connection.
pub fn read_discriminator(bytes: &[u8; LINK_LEN]) -> Option<[u8; LINK_LEN]> {
    Link::decode(bytes).map(|link| link.encode())
}

/// Pairs this process with a peer that is this process under another name. Like a rendezvous, uses a segment and the
/// peer's doorbells. Returns the pair's index. `server`: address at which the peer accepts connections.
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

/// Audits a connection, like the progress thread about once a second. Compares the words that this end has written with
/// the segment, and returns unneeded memory.
pub fn audit(at: Ref) {
    at.conn.lock().seen.at = 0;
    stream::audit::look(at.conn, clock::now_ns());
}

/// Repairs a connection, like the next owner of a lock whose last owner has died.
pub fn repair(at: Ref) {
    if let Some(mut guard) = at.conn.attached() {
        stream::repair(&mut guard);
    }
}

/// Forgets every rendezvous, every pair and every peer. No connection may be attached.
pub fn forget_peers() {
    meeting::leave_all();
    pair::leave_all(sets::forget_pair);
    peers::leave_all();
}
