//! How the two ends of a connection find out that both run under Sovia on one host.
//!
//! Nothing is done before an end has moved bytes a few times, so short connections pay nothing.
//! Then, if the two processes share a segment already, the connector puts a request with the
//! connection's addresses into its table, and the acceptor, who looks there, takes it: no system
//! call but the proof of identity. If they do not, they meet first:
//!
//! 1. the connector binds an abstract datagram name made of the connection's addresses;
//! 2. the acceptor says Hello to that name (nobody there: the connection stays on TCP);
//! 3. the connector answers with an Offer: the segment, and its doorbells;
//! 4. the acceptor Accepts with its own doorbells, and takes the request that it finds inside.
//!
//! Any process may bind any name, so nobody is believed: before anything is handed over or
//! switched, the speaker's user id, vouched for by the kernel, and the cookie it names are compared
//! with what the kernel knows of the socket at the other end of *this* connection. Descriptors go
//! only to the very address that a proven message came from. Everything else is dropped and
//! counted.

use crate::conn::{Phase, Role, flag};
use crate::message::{self, Link, Message, Process, Step};
use crate::pair::{self, RobustBox};
use crate::table::{self, Ref};
use crate::{config, epoll, progress, stats};
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::Ordering;
use sovia_control::{Junk, Reason};
use sovia_proto::flow::{DACKS, Flow};
use sovia_sys::datagram::{Datagram, Name, Received};
use sovia_sys::{call, clock, diag};
use via_shm::layout::DOORBELLS;
use via_shm::request::{DISCRIMINATOR, Progress};
use via_shm::segment::AttachError;
use via_shm::{Endpoint, Segment};

/// Transfers after which an end gives its peer up, if as many nanoseconds have passed as well.
const PATIENCE: u32 = 4096;
const PATIENCE_NS: u64 = 200_000_000;
/// Nanoseconds after which an end tries the other way: another process may have the other end.
const RETRY_NS: u64 = 5_000_000;
/// Connections that may be on their way to a meeting at a time in one process.
const MEETINGS: usize = 128;
/// Junk datagrams that one look takes off a socket; more wait for the next look.
const DATAGRAMS: usize = 16;

struct Meeting {
    at: Ref,
    link: Link,
    stage: Stage,
    begun: u64,
    /// When the present stage was reached.
    since: u64,
}

enum Stage {
    /// Connector: bound to the rendezvous name.
    Bound(Datagram),
    /// Connector: request made.
    Requested { pair: u32, vi: u32 },
    /// Acceptor: looking; whether a Hello has been taken.
    Looking { greeted: bool },
}

struct Meetings {
    list: Vec<Meeting>,
    inbox: Option<Datagram>,
    owner: i32,
}

static MEETINGS_STATE: RobustBox<Meetings> =
    RobustBox::new(Meetings { list: Vec::new(), inbox: None, owner: 0 });

/// Called after each transfer of a candidate.
#[inline]
pub fn transferred(fd: i32, at: Ref) {
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    let first = config::meet_after();
    if n < first {
        return;
    }
    // Each time for a while, then more seldom: a look is a system call or two.
    let since = n - first;
    let due = match since {
        0..64 => true,
        64..1024 => since.is_multiple_of(16),
        _ => since.is_multiple_of(256),
    };
    if due {
        step(fd, at, n);
    }
}

/// One look at where a candidate's meeting stands.
#[cold]
fn step(fd: i32, at: Ref, n: u32) {
    if at.conn.holders.load(Ordering::Acquire) != 1 {
        if n - config::meet_after() >= PATIENCE {
            give_up(at, Reason::SharedByProcesses);
        }
        return;
    }
    MEETINGS_STATE.with(|meetings| meetings.step(fd, at, n));
}

fn give_up(at: Ref, reason: Reason) {
    at.conn.set_phase(Phase::Plain);
    count_stay(at, reason);
}

/// Counts a connection's stay on TCP, once.
pub(crate) fn count_stay(at: Ref, reason: Reason) {
    if at.conn.set(flag::COUNTED) & flag::COUNTED == 0 {
        stats::reason(reason);
    }
}

/// A candidate is closed: forget its meeting.
pub(crate) fn closed(at: Ref) {
    if at.conn.transfers.load(Ordering::Relaxed) < config::meet_after() {
        return;
    }
    MEETINGS_STATE.with(|meetings| {
        if let Some(i) = meetings.find(at) {
            meetings.end(i);
        }
    });
}

fn junk(kind: Junk) {
    if let Some(page) = stats::page() {
        page.count_junk(kind);
    }
}

impl Meetings {
    fn find(&self, at: Ref) -> Option<usize> {
        self.list.iter().position(|m| m.at.same(at))
    }

    fn end(&mut self, i: usize) {
        let meeting = self.list.swap_remove(i);
        if let Stage::Requested { pair, vi } = meeting.stage
            && let Some(pair) = pair::get(pair)
        {
            pair.segment.withdraw(pair.side, vi);
        }
    }

    fn step(&mut self, fd: i32, at: Ref, n: u32) {
        // A forked child begins anew; its parent's names are not its own.
        let pid = call::getpid();
        if self.owner != pid {
            self.owner = pid;
            self.list.clear();
            self.inbox = None;
        }
        // Decided meanwhile by another thread.
        if at.conn.phase() != Phase::Candidate {
            return;
        }
        let i = match self.find(at) {
            Some(i) => i,
            None => match self.begin(fd, at) {
                Some(i) => i,
                None => return,
            },
        };
        match at.conn.role() {
            Role::Connector => self.step_connector(fd, i),
            Role::Acceptor => self.step_acceptor(fd, i),
        }
        if let Some(i) = self.find(at)
            && n >= PATIENCE
            && clock::now_ns() - self.list[i].begun >= PATIENCE_NS
        {
            self.end(i);
            give_up(at, Reason::PeerPlain);
        }
    }

    fn begin(&mut self, fd: i32, at: Ref) -> Option<usize> {
        let Some((local, peer)) = addresses(fd) else {
            give_up(at, Reason::PeerNotLocal);
            return None;
        };
        if !(peer.ip().is_loopback() || peer.ip() == local.ip()) {
            give_up(at, Reason::PeerNotLocal);
            return None;
        }
        if !config::allows(local, peer) {
            give_up(at, Reason::Rule);
            return None;
        }
        if epoll::is_nested(at) {
            give_up(at, Reason::RetreatCall);
            return None;
        }
        if self.list.len() >= MEETINGS {
            return None;
        }
        let cookie = diag::cookie(fd).ok()?;
        let (link, stage) = match at.conn.role() {
            Role::Connector => {
                let link = Link { connector: local, acceptor: peer, cookie };
                (link, request_or_bind(&link)?)
            }
            Role::Acceptor => (
                Link { connector: peer, acceptor: local, cookie },
                Stage::Looking { greeted: false },
            ),
        };
        let begun = clock::now_ns();
        self.list.push(Meeting { at, link, stage, begun, since: begun });
        Some(self.list.len() - 1)
    }

    fn step_connector(&mut self, fd: i32, i: usize) {
        let meeting = &mut self.list[i];
        match &meeting.stage {
            Stage::Requested { pair: index, vi } => {
                let (index, vi) = (*index, *vi);
                let Some(pair) = pair::get(index) else { return };
                match pair.segment.progress(vi) {
                    Progress::Accepted => {
                        if !pair.has_doors() {
                            hear_accept(index);
                        }
                        if pair.has_doors() && attach(fd, meeting.at, index, vi) {
                            self.list.swap_remove(i);
                        }
                    }
                    Progress::Gone => {
                        let at = meeting.at;
                        self.list.swap_remove(i);
                        give_up(at, Reason::PeerPlain);
                    }
                    Progress::Pending => {
                        // Another process may have accepted this connection: meet that one.
                        if clock::now_ns() - meeting.since >= RETRY_NS
                            && let Some(stage) = bind(&meeting.link)
                            && pair.segment.withdraw(pair.side, vi)
                        {
                            meeting.stage = stage;
                        }
                    }
                }
            }
            Stage::Bound(name) => {
                for _ in 0..DATAGRAMS {
                    let Some((message, received)) = hear(name) else { break };
                    if let Some(stage) = answer_hello(&meeting.link, &message, &received) {
                        let Stage::Requested { pair, .. } = stage else { break };
                        let old = core::mem::replace(&mut meeting.stage, stage);
                        meeting.since = clock::now_ns();
                        if let (Stage::Bound(name), Some(pair)) = (old, pair::get(pair)) {
                            let offer =
                                Message { step: Step::Offer, from: pair::me(), link: meeting.link };
                            // A pair known already has all it needs.
                            if !pair.has_doors() {
                                send_offer(pair, name, &offer, &received);
                            }
                        }
                        break;
                    }
                }
            }
            Stage::Looking { .. } => {}
        }
    }

    fn step_acceptor(&mut self, fd: i32, i: usize) {
        self.hear_offers();
        let meeting = &mut self.list[i];
        if let Some((pair, vi)) = find_request(&meeting.link) {
            let at = meeting.at;
            if attach_as_acceptor(fd, at, pair, vi) {
                self.list.swap_remove(i);
            }
            return;
        }
        let Stage::Looking { greeted } = meeting.stage else { return };
        if !greeted || clock::now_ns() - meeting.since >= RETRY_NS {
            if self.inbox.is_none() {
                self.inbox = Datagram::bind(None).ok();
                if let Some(inbox) = &self.inbox {
                    table::enter_private(inbox.raw());
                }
            }
            let hello = Message { step: Step::Hello, from: pair::me(), link: meeting.link };
            if let (Some(inbox), Some(name)) = (&self.inbox, rendezvous(&meeting.link))
                && inbox.send_to(&name, &hello.encode(), &[]).is_ok()
            {
                meeting.stage = Stage::Looking { greeted: true };
                meeting.since = clock::now_ns();
            }
        }
    }

    /// Takes offers for any connection of this process off the inbox.
    fn hear_offers(&mut self) {
        let Some(inbox) = &self.inbox else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = hear(inbox) else { return };
            let known = self.list.iter().find(|m| m.link.same_connection(&message.link));
            match (message.step, known) {
                (Step::Offer, Some(meeting)) => {
                    take_offer(inbox, &meeting.link, &message, received);
                }
                _ => junk(Junk::Stale),
            }
        }
    }
}

/// The next message that has the right form; others are counted and dropped.
fn hear(socket: &Datagram) -> Option<(Message, Received)> {
    let mut buf = [0; message::LEN + 1];
    for _ in 0..DATAGRAMS {
        let received = socket.receive(&mut buf).ok()?;
        if received.truncated {
            junk(Junk::Size);
            continue;
        }
        match Message::decode(&buf[..received.len.min(buf.len())]) {
            Ok(message) => return Some((message, received)),
            Err(message::Junk::Shape) => junk(Junk::Size),
            Err(message::Junk::Version) => junk(Junk::Version),
        }
    }
    junk(Junk::Flood);
    None
}

/// Whether a message comes from the process that holds the other end of `link`.
fn proven(link: &Link, role: Role, message: &Message, received: &Received) -> bool {
    if !message.link.same_connection(link) {
        junk(Junk::Stale);
        return false;
    }
    let Some((pid, uid)) = received.credentials else {
        junk(Junk::User);
        return false;
    };
    if uid != call::geteuid() || pid != message.from.pid {
        junk(Junk::User);
        return false;
    }
    if !owns_other_end(link, role, message.link.cookie, uid) {
        junk(Junk::Stale);
        return false;
    }
    true
}

/// Asks the kernel about the other end of `link`, where we play `role`.
fn owns_other_end(link: &Link, role: Role, cookie: u64, uid: u32) -> bool {
    let owner = match role {
        Role::Connector => diag::tcp_owner(link.acceptor, link.connector),
        Role::Acceptor => diag::tcp_owner(link.connector, link.acceptor),
    };
    owner.is_ok_and(|owner| owner.cookie == cookie && owner.uid == uid)
}

/// The connection's addresses as the program's own end sees them, local first.
fn addresses(fd: i32) -> Option<(SocketAddr, SocketAddr)> {
    let name = |peer| {
        let address = call::socket_name(fd, peer).ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    };
    let (local, peer): (SocketAddr, SocketAddr) = (name(false)?, name(true)?);
    // A scoped address says nothing without its interface.
    let scoped = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!scoped(local.ip())).then_some((local, peer))
}

fn rendezvous(link: &Link) -> Option<Name> {
    Name::new(format!("sovia/{}-{}", link.connector, link.acceptor).as_bytes())
}

fn bind(link: &Link) -> Option<Stage> {
    let name = Datagram::bind(Some(&rendezvous(link)?)).ok()?;
    table::enter_private(name.raw());
    Some(Stage::Bound(name))
}

fn request_or_bind(link: &Link) -> Option<Stage> {
    if let Some((index, pair)) = pair::at(link.acceptor)
        && let Some(vi) = pair.segment.request_connection(pair.side, &link.encode())
    {
        return Some(Stage::Requested { pair: index, vi });
    }
    bind(link)
}

/// Connector: a Hello has come.
fn answer_hello(link: &Link, message: &Message, received: &Received) -> Option<Stage> {
    if message.step != Step::Hello {
        junk(Junk::Stale);
        return None;
    }
    if !proven(link, Role::Connector, message, received) {
        return None;
    }
    let (index, pair) = match pair::with(message.from) {
        Some(known) => known,
        None => new_pair(message.from, link.acceptor)?,
    };
    let vi = pair.segment.request_connection(pair.side, &link.encode())?;
    Some(Stage::Requested { pair: index, vi })
}

fn new_pair(peer: Process, server: SocketAddr) -> Option<(u32, &'static pair::Pair)> {
    let Ok((segment, fd)) = Segment::create() else {
        stats::reason(Reason::NoMemory);
        return None;
    };
    let index = pair::add(segment, 0, peer, Some(server))?;
    let pair = pair::get(index)?;
    pair.file.with(|file| *file = Some(fd));
    Some((index, pair))
}

/// Connector: hands the segment and our doorbells to the process that has said Hello. Again if an
/// earlier offer has not been answered: it may have come too late for the connection it was about.
fn send_offer(pair: &pair::Pair, name: Datagram, offer: &Message, to: &Received) {
    let Some(to) = to.sender else { return };
    pair.file.with(|file| {
        let (Some(segment), Some(doors)) = (&*file, pair::doors()) else { return };
        let mut fds = [0; DOORBELLS + 1];
        fds[0] = segment.raw();
        fds[1..].copy_from_slice(&doors);
        if name.send_to(&to, &offer.encode(), &fds).is_ok() {
            // The answer comes to the name that the offer was sent from.
            pair.greeting.with(|greeting| *greeting = Some(name));
        }
    });
}

/// Acceptor: an Offer for one of our connections has come.
fn take_offer(inbox: &Datagram, link: &Link, message: &Message, mut received: Received) {
    if received.fds.len() != DOORBELLS + 1 {
        junk(Junk::Descriptor);
        return;
    }
    if !proven(link, Role::Acceptor, message, &received) {
        return;
    }
    let (Some(to), Some(own)) = (received.sender, pair::doors()) else { return };
    let accept = Message { step: Step::Accept, from: pair::me(), link: *link }.encode();
    if pair::with(message.from).is_some() {
        // Our answer to an earlier offer did not arrive.
        let _ = inbox.send_to(&to, &accept, &own);
        return;
    }
    let doors = received.fds.split_off(1);
    let segment = match Segment::attach(&received.fds[0]) {
        Ok(segment) => segment,
        Err(AttachError::Seals) => return junk(Junk::Seal),
        Err(AttachError::Layout) => return junk(Junk::Version),
        Err(AttachError::Map(_)) => return stats::reason(Reason::NoMemory),
    };
    if !doors.iter().all(|door| is_doorbell(door.raw())) {
        return junk(Junk::Descriptor);
    }
    if inbox.send_to(&to, &accept, &own).is_err() {
        return;
    }
    if let Some(pair) = pair::add(segment, 1, message.from, None).and_then(pair::get) {
        pair.keep_doors(doors);
    }
}

/// Connector: takes the peer's doorbells, which it sent before it accepted.
fn hear_accept(index: u32) {
    let Some(pair) = pair::get(index) else { return };
    pair.greeting.with(|greeting| {
        let Some(name) = greeting else { return };
        while let Some((message, received)) = hear(name) {
            let from_peer = message.step == Step::Accept
                && message.from == pair.peer
                && received.credentials == Some((pair.peer.pid, call::geteuid()));
            if from_peer && received.fds.iter().all(|door| is_doorbell(door.raw())) {
                if pair.keep_doors(received.fds) {
                    pair.file.with(|file| *file = None);
                    *greeting = None;
                    return;
                }
            } else {
                junk(Junk::Stale);
            }
        }
    });
}

/// Whether writing to a descriptor can neither block nor do anything but count.
fn is_doorbell(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    target[..n].starts_with(b"anon_inode:[eventfd]") && call::is_nonblocking(fd)
}

/// Acceptor: the request that mirrors our end of the connection.
fn find_request(link: &Link) -> Option<(u32, u32)> {
    let mut found = None;
    pair::each(|index, pair| {
        pair.segment.pending(pair.side, |vi, discriminator: &[u8; DISCRIMINATOR]| {
            if let Some(theirs) = Link::decode(discriminator)
                && theirs.same_connection(link)
                && owns_other_end(link, Role::Acceptor, theirs.cookie, call::geteuid())
            {
                found = Some((index, vi));
            }
        });
    });
    found
}

fn attach_as_acceptor(fd: i32, at: Ref, index: u32, vi: u32) -> bool {
    let Some(pair) = pair::get(index) else { return false };
    pair.has_doors() && pair.segment.accept(pair.side, vi) && attach(fd, at, index, vi)
}

/// Gives a connection its VI. From here on its calls go through [`crate::stream`].
fn attach(fd: i32, at: Ref, index: u32, vi: u32) -> bool {
    let Some(pair) = pair::get(index) else { return false };
    let conn = at.conn;
    // The progress thread tells us of the anchor's death; without it there is no acceleration.
    if !progress::start() {
        return false;
    }
    {
        let mut guard = conn.lock();
        pair.occupy(vi, at.index);
        conn.pair.store(index, Ordering::Relaxed);
        conn.vi.store(vi, Ordering::Relaxed);
        conn.side.store(pair.side as u32, Ordering::Relaxed);
        // SAFETY: the pair keeps the segment mapped while the VI is occupied; forked processes
        // inherit the mapping with the connection; the lock serialises the halves' use.
        guard.endpoint.write(unsafe { Endpoint::new(&pair.segment, vi, pair.side) });
        guard.flow = Flow::new(DACKS);
        guard.closing = Default::default();
        guard.gatherer = Default::default();
        guard.taker = Default::default();
        guard.traffic = Default::default();
        guard.pumped = 0;
        guard.front = 0;
        guard.held_first = 0;
        guard.held_end = 0;
        if call::is_nonblocking(fd) {
            conn.set(flag::NONBLOCK);
        }
        let timeout = |name| call::timeout_ns(fd, name).unwrap_or(0);
        conn.receive_timeout.store(timeout(libc::SO_RCVTIMEO), Ordering::Relaxed);
        conn.send_timeout.store(timeout(libc::SO_SNDTIMEO), Ordering::Relaxed);
        conn.set_phase(Phase::Attached);
    }
    progress::watch(fd, at);
    epoll::attached(fd, at);
    if let Some(page) = stats::page()
        && conn.set(flag::COUNTED) & flag::COUNTED == 0
    {
        page.count_accelerated();
    }
    true
}
