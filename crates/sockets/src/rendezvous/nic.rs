//! Rendezvous through a NIC in software. If the rules name a NIC, each end requests a VI from its NIC. The NIC
//! accepts the request once the other end's NIC has a request for the same connection.
//!
//! A process introduces itself to a NIC once ([`Introduction`]). The process and the NIC each show that it could
//! trace the other, like two processes in a first rendezvous. Then the process sends the NIC a segment. In this
//! segment the NIC is the peer, like another process of this host. If the NIC does not run or does not answer, the
//! connection stays on TCP and tries again later.

use super::attach::{Attached, attach};
use super::first::step_by_nic;
use super::in_flight;
use super::offer::{are_descriptors_of_a_peer, keep, own_descriptors};
use super::permit::{nic_of, permitted};
use crate::conn::{ApproachStage, Phase, Role};
use crate::epoll_sets;
use crate::message::{Link, Process};
use crate::pair::{self, Requested};
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_control::{NicName, NicRule, Reason};
use sovia_proto::rendezvous::{INTRODUCTION, Introduction, NIC_NAME};
use sovia_ring::Segment;
use sovia_ring::request::Progress;
use sovia_sys::datagram::{Name, Received};
use sovia_sys::seqpacket::Packets;
use sovia_sys::trace::{self, Challenge};
use sovia_sys::{Fd, call, clock};

/// Nanoseconds after which a process looks again for a NIC that it could not reach.
const RETRY_NS: u64 = 5_000_000;

/// Number of transfers from which a connector's look for the NIC's answer also reminds the NIC of the request. The NIC may
/// have been unable to identify the connection's socket. From here on an end looks rarely. An acceptor sends no reminders,
/// because its request may wait for the connector's.
const REMINDS: u32 = 96;

/// Number of transfers after which an end that waits for its NIC asks the kernel if the NIC's process is still there.
const ASKS: u32 = 64;

/// A NIC that the rules name, and the state of this process's introduction to the NIC.
struct Nic {
    name: &'static NicName,
    /// Introduction of this process to the NIC, while the introduction is under way.
    talk: Option<NicIntroduction>,
    /// Process of the NIC, once the NIC has answered.
    process: Option<Process>,
    /// Time of the last attempt to reach the NIC.
    tried: u64,
}

/// An introduction of this process to a NIC, which is under way.
struct NicIntroduction {
    packets: Packets,
    /// Challenge that the NIC must read to show that it could trace this process.
    challenge: Challenge,
    /// Segment that this process has sent, with the identity of the segment's file. `None` until the NIC has met
    /// the challenge.
    segment: Option<(Segment, Fd)>,
}

/// NICs that this process has looked for.
pub(super) struct Nics(Vec<Nic>);

/// Takes one step of a connection's rendezvous through a NIC. Returns `None` if the rules name no NIC for the connection.
pub(super) fn step(fd: i32, at: Ref, n: u32) -> Option<Attached> {
    if let Some(requested) = requested(at) {
        return Some(look_for_answer(fd, at, n, requested));
    }
    if in_flight::are_too_few(at) {
        return Some(Attached::No);
    }
    Some(step_by_nic(fd, at, n, nic_of(fd, at)?))
}

/// Returns this process's request to a NIC for the connection, if it has not seen the answer.
pub(super) fn requested(at: Ref) -> Option<Requested> {
    let approach = &at.conn.approach;
    match approach.stage() {
        ApproachStage::Requested { pair, vi, .. }
            if approach.messages.load(Ordering::Relaxed) != 0 =>
        {
            Some(Requested { pair, vi })
        }
        _ => None,
    }
}

/// Looks for a NIC's answer to a request.
fn look_for_answer(fd: i32, at: Ref, n: u32, requested: Requested) -> Attached {
    let approach = &at.conn.approach;
    let Requested { pair: index, vi } = requested;
    let Some(pair) = pair::get(index) else {
        approach.reach(ApproachStage::Idle);
        return Attached::No;
    };
    match pair.segment.progress(vi) {
        Progress::Pending => {
            // If this NIC has ended, withdraw the request. Another NIC may have taken the name. Now and then, ask the
            // kernel: without a VI, this process may have no progress thread, which would learn of the end.
            let is_there = match n % ASKS {
                0 | 1 => pair.peer_is_there(),
                _ => pair.peer_seems_there(),
            };
            if !is_there && pair.withdraw(vi) {
                approach.reach(ApproachStage::Idle);
            } else if n >= REMINDS && at.conn.is_connector() {
                pair.notify_nic(vi);
            }
            Attached::No
        }
        Progress::Accepted => {
            let attached = attach(fd, at, index, vi);
            if attached != Attached::No {
                approach.reach(ApproachStage::Idle);
            } else if at.conn.phase() == Phase::Plain {
                super::known::closed(at);
            }
            attached
        }
        Progress::Gone => {
            pair.free(vi);
            approach.reach(ApproachStage::Idle);
            Attached::No
        }
    }
}

impl Nics {
    pub(super) const fn new() -> Nics {
        Nics(Vec::new())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes one step of a connection's rendezvous through the NIC with this name: requests a VI.
    pub(super) fn step(&mut self, fd: i32, at: Ref, n: u32, rule: NicRule<'static>) -> Attached {
        let name = rule.name;
        let Some(process) = self.process(name) else {
            if self.find(name).talk.is_none() {
                at.conn.keep_for(Some(Reason::NoNic));
            }
            return Attached::No;
        };
        let Some(link) = permitted(fd, at) else { return Attached::No };
        // Only now, so that a rule or a missing NIC is the connection's reason to stay on TCP.
        at.conn.approach.messages.store(rule.messages.into(), Ordering::Relaxed);
        if in_flight::are_too_few(at) {
            return Attached::No;
        }
        match request(process, &link, at.conn.role()) {
            Some(Requested { pair, vi }) => {
                let stage = ApproachStage::Requested { pair, vi, at: n as u8 & 0x7f };
                at.conn.approach.reach(stage);
            }
            // All VIs of the NIC's segments are in use, so a later step must send the NIC another segment.
            None => self.leave_behind(name),
        }
        Attached::No
    }

    fn find(&mut self, name: &'static NicName) -> &mut Nic {
        let known = self.0.iter().position(|nic| nic.name == name);
        let i = known.unwrap_or_else(|| {
            self.0.push(Nic { name, talk: None, process: None, tried: 0 });
            self.0.len() - 1
        });
        &mut self.0[i]
    }

    /// Forgets the NIC's process, so that the next step sends the NIC another segment.
    fn leave_behind(&mut self, name: &'static NicName) {
        self.find(name).process = None;
    }

    /// Returns the process of the NIC with this name. If the NIC has not answered, takes a step of the introduction.
    fn process(&mut self, name: &'static NicName) -> Option<Process> {
        let nic = self.find(name);
        if let Some(process) = nic.process {
            if pair::is_served_by(process) {
                return Some(process);
            }
            nic.process = None;
        }
        match nic.talk.take() {
            Some(talk) => nic.receive(talk),
            None => nic.introduce(),
        }
        nic.process
    }
}

/// Requests a VI from a NIC, in the first of the NIC's segments that has a free VI. Notifies the NIC.
fn request(nic: Process, link: &Link, role: Role) -> Option<Requested> {
    let requested = pair::request_of_nic(nic, &link.of_role(role == Role::Connector))?;
    pair::get(requested.pair)?.notify_nic(requested.vi);
    Some(requested)
}

impl Nic {
    /// Begins the introduction: sends the NIC this process's identity and the place of its challenge.
    fn introduce(&mut self) {
        let now = clock::now_ns();
        if now.saturating_sub(self.tried) < RETRY_NS {
            return;
        }
        self.tried = now;
        let mut name = [0; NIC_NAME.len() + 32];
        let text = self.name.as_str().as_bytes();
        name[..NIC_NAME.len()].copy_from_slice(NIC_NAME.as_bytes());
        name[NIC_NAME.len()..][..text.len()].copy_from_slice(text);
        let Some(name) = Name::new(&name[..NIC_NAME.len() + text.len()]) else { return };
        let Ok(packets) = Packets::connect(&name) else { return };
        let Ok(challenge) = Challenge::new() else { return };
        let introduction =
            Introduction { from: pair::me(), place: challenge.place(), shown: [0; 16] };
        if packets.send(&introduction.encode(), &[]).is_ok() {
            self.talk = Some(NicIntroduction { packets, challenge, segment: None });
        }
    }

    /// Receives the NIC's next message and takes the next step of the introduction.
    fn receive(&mut self, mut talk: NicIntroduction) {
        let mut answer = [0; INTRODUCTION + 1];
        let received = match talk.packets.receive(&mut answer) {
            Ok(received) => received,
            Err(call::Errno::EAGAIN) => {
                self.talk = Some(talk);
                return;
            }
            Err(_) => return,
        };
        let introduction = Introduction::decode(&answer[..received.len.min(answer.len())]);
        let (Some(introduction), Ok((pid, uid))) = (introduction, talk.packets.peer()) else {
            return;
        };
        // Check the sender, because a program of another user may listen at the NIC's name.
        if introduction.from.pid != pid || uid != call::geteuid() {
            return;
        }
        match talk.segment.take() {
            None if talk.challenge.is_met_by(&introduction.shown) => {
                self.hand_over(talk, pid, introduction.place)
            }
            None => {}
            Some((segment, file)) => self.complete(segment, file, introduction.from, received),
        }
    }

    /// Sends the NIC a segment, if this process could trace the NIC. Called after the NIC has shown that it could
    /// trace this process.
    fn hand_over(&mut self, mut talk: NicIntroduction, pid: i32, place: i32) {
        let Some(shown) = trace::read_challenge(pid, place) else { return };
        let (Ok((segment, file)), Some(own)) = (Segment::create(), own_descriptors()) else {
            return;
        };
        if !file.is_high() {
            return;
        }
        let mut fds = vec![file.raw()];
        fds.extend(own);
        let introduction = Introduction { from: pair::me(), place: -1, shown };
        if talk.packets.send(&introduction.encode(), &fds).is_ok() {
            talk.segment = Some((segment, file));
            self.talk = Some(talk);
        }
    }

    /// Completes the introduction: adds the pair to the table. The message with the NIC's descriptors shows that
    /// the NIC has the segment.
    fn complete(&mut self, segment: Segment, file: Fd, nic: Process, mut received: Received) {
        if !are_descriptors_of_a_peer(&received.fds, None) {
            return;
        }
        received.fds.iter_mut().for_each(Fd::vouch);
        pair::make_room(epoll_sets::forget_pair);
        let added = pair::add_nic(segment, file, nic).and_then(pair::get);
        if let Some(pair) = added {
            keep(&pair, received.fds);
            if pair.has_doorbells() {
                self.process = Some(nic);
            }
        }
    }
}
