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

mod attach;
mod offer;
mod proof;

use crate::conn::{Phase, Role};
use crate::message::{Link, Message, Step};
use crate::pair;
use crate::robust::RobustBox;
use crate::table::Ref;
use crate::{config, family, sets, stats};
use attach::{Attached, attach, attach_as_acceptor, find_request};
use core::sync::atomic::Ordering;
use offer::{answer_hello, hear_accept, send_offer, take_name_back, take_offer};
use proof::{addresses, hear, rendezvous};
use sovia_control::{Junk, Reason};
use sovia_sys::datagram::Datagram;
use sovia_sys::{call, clock, diag, fd};
use via_shm::request::Progress;

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

/// Called after each transfer of a candidate. True if it has been given a VI that it cannot keep: the
/// caller takes it back to TCP.
#[inline]
#[must_use]
pub fn transferred(fd: i32, at: Ref) -> bool {
    let n = at.conn.transfers.fetch_add(1, Ordering::Relaxed) + 1;
    let first = config::meet_after();
    if n < first {
        return false;
    }
    // Each time for a while, then more seldom: a look is a system call or two.
    let since = n - first;
    let due = match since {
        0..64 => true,
        64..1024 => since.is_multiple_of(16),
        _ => since.is_multiple_of(256),
    };
    due && step(fd, at, n)
}

/// One look at where a candidate's meeting stands. True if it must go back to TCP.
#[cold]
fn step(fd: i32, at: Ref, n: u32) -> bool {
    if family::is_shared(at.conn) {
        if n - config::meet_after() >= PATIENCE {
            give_up(at, Reason::SharedByProcesses);
        }
        return false;
    }
    MEETINGS_STATE.with(|meetings| meetings.step(fd, at, n)) == Attached::GoesBack
}

fn give_up(at: Ref, reason: Reason) {
    at.conn.set_phase(Phase::Plain);
    at.conn.count_stay(reason);
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
            // Accepted meanwhile: the other end has it, and this one leaves it.
            if !pair.withdraw(vi) {
                pair.segment.leave(pair.side, vi);
                pair.free(vi);
            }
        }
    }

    fn step(&mut self, fd: i32, at: Ref, n: u32) -> Attached {
        // A forked child begins anew; its parent's names are not its own.
        let pid = call::getpid();
        if self.owner != pid {
            self.owner = pid;
            self.list.clear();
            self.inbox = None;
        }
        // Decided meanwhile by another thread.
        if at.conn.phase() != Phase::Candidate {
            return Attached::No;
        }
        let Some(i) = self.find(at).or_else(|| self.begin(fd, at)) else { return Attached::No };
        let attached = match at.conn.role() {
            Role::Connector => self.step_connector(fd, i),
            Role::Acceptor => self.step_acceptor(fd, i),
        };
        if let Some(i) = self.find(at)
            && n >= PATIENCE
            && clock::now_ns() - self.list[i].begun >= PATIENCE_NS
        {
            self.give_up(i, Reason::PeerPlain);
        }
        attached
    }

    fn give_up(&mut self, i: usize, reason: Reason) {
        let at = self.list[i].at;
        self.end(i);
        give_up(at, reason);
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
        if !fd::can_be_spared() {
            give_up(at, Reason::NoDescriptors);
            return None;
        }
        if sets::is_nested(at) {
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
                match request_or_bind(&link) {
                    Some(stage) => (link, stage),
                    None => {
                        // Somebody else holds the name.
                        if at.conn.transfers.load(Ordering::Relaxed) >= PATIENCE {
                            give_up(at, Reason::PeerPlain);
                        }
                        return None;
                    }
                }
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

    fn step_connector(&mut self, fd: i32, i: usize) -> Attached {
        let mut attached = Attached::No;
        let meeting = &mut self.list[i];
        match &meeting.stage {
            Stage::Requested { pair: index, vi } => {
                let (index, vi) = (*index, *vi);
                let Some(pair) = pair::get(index) else { return attached };
                match pair.segment.progress(vi) {
                    Progress::Accepted => {
                        if !pair.has_doors() {
                            hear_accept(index);
                        }
                        if pair.has_doors() {
                            attached = attach(fd, meeting.at, index, vi);
                        }
                        if attached != Attached::No {
                            self.list.swap_remove(i);
                        }
                    }
                    Progress::Gone => {
                        let at = meeting.at;
                        pair.free(vi);
                        self.list.swap_remove(i);
                        give_up(at, Reason::PeerPlain);
                    }
                    Progress::Pending => {
                        if !pair.has_doors() {
                            // Whatever else has come to the name must not fill it.
                            hear_accept(index);
                        }
                        // Another process may have accepted this connection: meet that one. Or our
                        // offer was lost: the name is there still, for another.
                        if clock::now_ns() - meeting.since >= RETRY_NS && pair.withdraw(vi) {
                            let name = take_name_back(index, &meeting.link);
                            meeting.since = clock::now_ns();
                            match name.map(Stage::Bound).or_else(|| bind(&meeting.link)) {
                                Some(stage) => meeting.stage = stage,
                                None => {
                                    self.list.swap_remove(i);
                                }
                            }
                        }
                    }
                }
            }
            Stage::Bound(name) => {
                for _ in 0..DATAGRAMS {
                    let Some((message, received)) = hear(name) else { break };
                    let stage = match answer_hello(&meeting.link, &message, &received) {
                        Ok(stage) => stage,
                        Err(reason) => {
                            self.give_up(i, reason);
                            break;
                        }
                    };
                    if let Some(stage) = stage {
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
        attached
    }

    fn step_acceptor(&mut self, fd: i32, i: usize) -> Attached {
        let at = self.list[i].at;
        self.hear_offers();
        // Unless an offer has put an end to it.
        let Some(i) = self.find(at) else { return Attached::No };
        let meeting = &mut self.list[i];
        if let Some((pair, vi)) = find_request(&meeting.link) {
            let attached = attach_as_acceptor(fd, at, pair, vi);
            if attached != Attached::No {
                self.list.swap_remove(i);
            }
            return attached;
        }
        let Stage::Looking { greeted } = meeting.stage else { return Attached::No };
        if !greeted || clock::now_ns() - meeting.since >= RETRY_NS {
            if self.inbox.is_none() {
                self.inbox = Datagram::bind(None).ok();
            }
            let hello = Message { step: Step::Hello, from: pair::me(), link: meeting.link };
            if let (Some(inbox), Some(name)) = (&self.inbox, rendezvous(&meeting.link))
                && inbox.send_to(&name, &hello.encode(), &[]).is_ok()
            {
                meeting.stage = Stage::Looking { greeted: true };
                meeting.since = clock::now_ns();
            }
        }
        Attached::No
    }

    /// Takes offers for any connection of this process off the inbox.
    fn hear_offers(&mut self) {
        let Some(inbox) = &self.inbox else { return };
        for _ in 0..DATAGRAMS {
            let Some((message, received)) = hear(inbox) else { return };
            let known = self.list.iter().position(|m| m.link.same_connection(&message.link));
            match (message.step, known) {
                (Step::Offer, Some(i)) => {
                    let taken = take_offer(inbox, &self.list[i].link, &message, received);
                    if let Err(reason) = taken {
                        self.give_up(i, reason);
                        return;
                    }
                }
                _ => junk(Junk::Stale),
            }
        }
    }
}

fn bind(link: &Link) -> Option<Stage> {
    let name = Datagram::bind(Some(&rendezvous(link)?)).ok()?;
    Some(Stage::Bound(name))
}

fn request_or_bind(link: &Link) -> Option<Stage> {
    if let Some((index, pair)) = pair::at(link.acceptor)
        && let Some(vi) = pair.request(&link.encode())
    {
        return Some(Stage::Requested { pair: index, vi });
    }
    bind(link)
}

/// Around fork: no meeting is in the middle of a step.
pub(crate) fn hold() {
    MEETINGS_STATE.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    MEETINGS_STATE.release();
}
