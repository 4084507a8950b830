//! Interface for `fuzz/`, which no program may use. Only builds with `--cfg fuzzing` contain it.

use crate::message::{LINK_LEN, Link, Message, MessageKind, Process};
use crate::pair::{DOORBELLS, Segment, SideIndex};
use crate::table::Ref;
use crate::{epoll_sets, pair, peers, rendezvous, stream};
use core::net::SocketAddr;
use sovia_sys::trace::Secret;
use sovia_sys::{Fd, call, clock};

/// Identifies a connection from the view of one of its ends.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    /// Address of the end that called `connect`.
    pub connector: SocketAddr,
    /// Address of the end that accepted the connection.
    pub acceptor: SocketAddr,
    /// The kernel's cookie for the socket of the end that sends the message.
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
const KINDS: [MessageKind; 5] = [
    MessageKind::Hello,
    MessageKind::Offer,
    MessageKind::Accept,
    MessageKind::Ask,
    MessageKind::Show,
];

/// Fields of a message, except the step and the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Words {
    /// Process that sends the message.
    pub pid: i32,
    /// Nonce of the process that sends the message.
    pub nonce: u64,
    /// Number of the sender's descriptor with the challenge for the receiver.
    pub place: i32,
    /// Content of the receiver's challenge, which the sender has read.
    pub shown: Secret,
}

/// Returns a well-formed message of a first rendezvous. Steps count from 1.
pub fn message(kind: usize, connection: Connection, words: Words) -> Vec<u8> {
    let from = Process { pid: words.pid, nonce: words.nonce };
    let kind = KINDS[(kind - 1) % KINDS.len()];
    let message = Message::new(kind, from, connection.link());
    Message { place: words.place, shown: words.shown, ..message }.encode().to_vec()
}

/// Decodes `bytes` as a message of a first rendezvous, and encodes this message again. Also returns the message's
/// step and words. `None` if `bytes` are not a valid message.
pub fn read_message(bytes: &[u8]) -> Option<(Vec<u8>, usize, Words)> {
    let message = Message::decode(bytes).ok()?;
    let kind = KINDS.iter().position(|&kind| kind == message.kind)? + 1;
    let Process { pid, nonce } = message.from;
    let words = Words { pid, nonce, place: message.place, shown: message.shown };
    Some((message.encode().to_vec(), kind, words))
}

/// Decodes a request's discriminator, and encodes it again. `None` if the discriminator names no connection.
pub fn read_discriminator(bytes: &[u8; LINK_LEN]) -> Option<[u8; LINK_LEN]> {
    Link::decode(bytes).map(|link| link.encode())
}

/// Pairs this process with a peer that is this process under another nonce. The pair uses `segment` and new
/// doorbells, like after a rendezvous. Returns the pair's index. `server` is the address at which the peer accepts
/// connections.
pub fn pair_with(
    nonce: u64,
    segment: Segment,
    file: &Fd,
    side: SideIndex,
    server: Option<SocketAddr>,
) -> Option<u32> {
    let file =
        Fd::make(|| call::fcntl(file.raw(), libc::F_DUPFD_CLOEXEC, 0).map(|fd| fd as i32)).ok()?;
    let index =
        pair::add(segment, file, side, Process { pid: call::getpid(), nonce }, None, server)?;
    let doorbell = || Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)).ok();
    let doorbells: Option<Vec<Fd>> = (0..DOORBELLS).map(|_| doorbell()).collect();
    pair::get(index)?.keep_doorbells(doorbells?).then_some(index)
}

/// Audits a connection at once. The progress thread does this about once a second. An audit compares the words that
/// this end has written with the segment, and frees unneeded memory.
pub fn audit(at: Ref) {
    at.conn.lock().seen.at = 0;
    stream::audit::look(at.conn, clock::now_ns());
}

/// Repairs a connection, like a thread that takes a lock whose last owner has died.
pub fn repair(at: Ref) {
    if let Some(mut guard) = at.conn.attached() {
        stream::repair(&mut guard);
    }
}

/// Forgets every rendezvous, every pair and every peer. Call it only while no connection has a VI.
pub fn forget_peers() {
    rendezvous::leave_all();
    pair::leave_all(epoll_sets::forget_pair);
    peers::leave_all();
}
