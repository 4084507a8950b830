//! Tests of programs that break the protocol, and of programs of other users.

use crate::common::{agent, agent_for, name};
use crate::faults::{context, converse, request};
use crate::process::at;
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_link::wire::{Answer, Checksum, EndId, Meeting, Packet, Report, Request, Word};
use sovia_port::agent::Agent;
use sovia_port::agent::said::{FromAgent, FromProgram, Welcome, socket_of};
use sovia_port::{Address, Listens, Port};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, call, credentials, poll};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::thread;
use via::error::ConnectError;
use via::{NetAddress, Vi, ViAttributes};
use via_conformance::{Context, End};
use via_eth::{Config, Place};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("forged_frames_reach_nobody", forged),
    ("request_in_another_programs_name_is_rejected", request_in_another_name),
    ("memory_that_cannot_be_true_ends_its_own_program_alone", broken_memory),
    ("nonsense_and_descriptors_end_their_own_program_alone", nonsense),
    ("flood_and_a_program_that_takes_nothing_starve_nobody", flood),
    ("user_that_is_not_served_is_told_so", other_user),
    ("program_of_another_user_gets_no_request_that_is_not_its_own", requests_of_another_user),
    ("each_user_has_its_share_of_the_places", share),
];

const UDP: &str = "udp:127.0.0.1:0";
/// A user id that this host probably does not use.
const SOMEBODY: u32 = 54321;

fn started() -> String {
    let name = name();
    agent(&name, UDP).expect("an agent");
    name
}

/// Returns the name of an end on a port.
pub(crate) fn end(port: &Agent, n: u64) -> EndId {
    EndId(u64::from(port.prefix().expect("it shares its address")) << 48 | n)
}

pub(crate) fn put(port: &mut Agent, to: Address, word: &Word) {
    let mut frame = Vec::new();
    word.emit_for(&mut frame, Checksum::Link);
    let room = port.slot().expect("room");
    room[..frame.len()].copy_from_slice(&frame);
    port.commit(frame.len(), &to).expect("a frame");
    port.flush().expect("the agent is there");
}

/// Waits for the next frame.
fn next(port: &mut Agent) -> (Address, Word) {
    loop {
        let mut came = None;
        let take = |from: &Address, frame: &[u8]| {
            let word = match Packet::parse_for(frame, Checksum::Link).expect("a frame") {
                Packet::Ack { to, from, report } => Word::Ack { to, from, report },
                Packet::Gone { to } => Word::Gone { to },
                Packet::Meeting(meeting) => Word::Meeting(meeting),
                other => panic!("{other:?}"),
            };
            assert!(came.is_none(), "one frame at a time is sent");
            came = Some((*from, word));
        };
        let mut take = take;
        port.receive(&mut take).expect("the agent is there");
        if let Some(came) = came {
            return came;
        }
        if port.about_to_sleep() {
            poll::wait(port.descriptors().frames, libc::POLLIN);
        }
    }
}

pub(crate) fn ack(to: EndId, from: EndId, n: u32) -> Word {
    Word::Ack { to, from, report: Report::plain(n) }
}

pub(crate) fn asked(id: EndId, local: NetAddress, remote: NetAddress, peer: bool) -> Word {
    let request = Request { id, local, remote, attributes: ViAttributes::default(), peer };
    Word::Meeting(Meeting::Request(Box::new(request)))
}

/// Opens three ports: of a program that lies and its victim, which share an agent, and of a program at another agent.
fn two_agents() -> (Agent, Agent, Agent) {
    let (near, far) = (started(), started());
    let open = |name: &str| Agent::open(name).expect("it serves this user");
    let (liar, mut victim, mut stranger) = (open(&near), open(&near), open(&far));
    victim.listen(b"victim", Listens::Now);
    stranger.listen(b"x", Listens::Now);
    (liar, victim, stranger)
}

pub(crate) fn place(port: &Agent, at: &[u8]) -> NetAddress {
    NetAddress::new(&port.own().host(), at)
}

fn forged() {
    let (mut liar, mut victim, mut stranger) = two_agents();
    let (local, remote) = (place(&victim, b"victim"), place(&stranger, b"x"));
    let own = place(&liar, b"liar");
    for other in [end(&victim, 1), EndId(1), EndId::NONE] {
        let forged = |to| {
            let answer = Answer::Accepted { conn: other, attributes: ViAttributes::default() };
            [
                ack(to, other, 1),
                Word::Hello { to, from: other },
                Word::Meeting(Meeting::Answer { request: to, answer }),
                Word::Meeting(Meeting::Settled { request: other, connected: true }),
                Word::Meeting(Meeting::Cancel { request: other }),
                Word::Meeting(Meeting::Poke { local: local.clone(), remote: remote.clone() }),
                Word::Meeting(Meeting::Poked { local: remote.clone(), remote: local.clone() }),
                asked(other, own.clone(), remote.clone(), false),
            ]
        };
        for seen_by in [&mut victim, &mut stranger] {
            let to = (seen_by.own(), end(seen_by, 2));
            for word in forged(to.1) {
                put(&mut liar, to.0, &word);
            }
            // The agent keeps the order of frames, so a forged frame would have arrived before this one.
            let honest = ack(to.1, end(&liar, 3), 7);
            put(&mut liar, to.0, &honest);
            assert_eq!(next(seen_by), (liar.own(), honest));
        }
    }
}

fn request_in_another_name() {
    let (mut liar, mut victim, mut stranger) = two_agents();
    let (name, server) = (place(&victim, b"victim"), place(&stranger, b"x"));
    for peer in [false, true] {
        let id = end(&liar, 5 + u64::from(peer));
        put(&mut liar, stranger.own(), &asked(id, name.clone(), server.clone(), peer));
        let rejected = Meeting::Answer { request: id, answer: Answer::Rejected };
        assert_eq!(next(&mut liar), (liar.own(), Word::Meeting(rejected)));
    }
    // A request to the program that listens there harms no other program.
    let (id, to) = (end(&liar, 9), liar.own());
    let own = asked(id, name.clone(), name.clone(), false);
    put(&mut liar, to, &own);
    assert_eq!(next(&mut victim), (to, own));
    let honest = asked(end(&victim, 1), name, server, true);
    put(&mut victim, stranger.own(), &honest);
    assert_eq!(next(&mut stranger), (victim.own(), honest));
}

/// A program with direct access to its memory and its socket.
struct Bare {
    packets: Packets,
    memory: File,
    welcome: Welcome,
}

impl Bare {
    fn come(agent: &str) -> Bare {
        let packets = Packets::connect(&socket_of(agent).expect("a name")).expect("an agent");
        poll::wait(packets.raw(), libc::POLLIN);
        let mut bytes = [0; 64];
        let mut received = packets.receive(&mut bytes).expect("it says something");
        let Some(FromAgent::Welcome(welcome)) = FromAgent::decode(&bytes[..received.len]) else {
            panic!("no welcome");
        };
        let memory = received.fds.pop().expect("the memory");
        Bare { packets, memory: File::from(OwnedFd::from(memory)), welcome }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("it can be written");
    }

    fn ring(&self) {
        // The agent may have ended the service already.
        let _ = self.packets.send(&FromProgram::Bell.encode(), &[]);
    }

    /// Waits until the agent has ended the service of this program.
    fn is_ended(&self) {
        let mut bytes = [0; 64];
        loop {
            match call::recv(self.packets.raw(), &mut bytes, 0) {
                Ok(0) | Err(Errno::ECONNRESET) => return,
                Ok(_) => {}
                Err(Errno::EAGAIN) => poll::wait(self.packets.raw(), libc::POLLIN),
                Err(why) => panic!("{why}"),
            }
        }
    }
}

/// Positions of the first slot in the ring to the agent, and of the counter of frames taken by the program.
const SLOT: u64 = 4096;
const TAKEN: u64 = 256;

fn broken_memory() {
    let agent = started();
    let (server, client) = (at(&agent), at(&agent));
    converse(&server, &client);
    let head = |stamp: u32, len: u32| (u64::from(len) << 32 | u64::from(stamp)).to_ne_bytes();
    for len in [u32::MAX, 1 << 20, 2000] {
        let bare = Bare::come(&agent);
        bare.write(SLOT, &head(1, len));
        bare.ring();
        bare.is_ended();
    }
    // An address of an unknown kind.
    let bare = Bare::come(&agent);
    bare.write(SLOT, &head(1, 100));
    bare.ring();
    bare.is_ended();
    // The program claims to have taken frames that the agent never sent.
    let bare = Bare::come(&agent);
    bare.write(TAKEN, &u32::MAX.to_ne_bytes());
    let mut sender = Agent::open(&agent).expect("it serves this user");
    let to = EndId(u64::from(bare.welcome.prefix) << 48 | 1);
    for n in 0..bare.welcome.geometry.count() {
        let (own, from) = (sender.own(), end(&sender, 1));
        put(&mut sender, own, &ack(to, from, n));
    }
    bare.is_ended();
    converse(&server, &client);
}

fn nonsense() {
    let agent = started();
    let (server, client) = (at(&agent), at(&agent));
    for said in [&[77][..], &[0, 0], &[1; 90], &[1; 500]] {
        let bare = Bare::come(&agent);
        bare.packets.send(said, &[]).expect("sent");
        bare.is_ended();
    }
    for bytes in [&FromProgram::Bell.encode()[..], &[]] {
        let bare = Bare::come(&agent);
        for _ in 0..10 {
            // The agent may have ended the service already.
            let _ = bare.packets.send(bytes, &[bare.packets.raw()]);
        }
        bare.is_ended();
    }
    converse(&server, &client);
}

fn flood() {
    let (near, far) = (started(), started());
    let (server, beside, elsewhere) = (at(&near), at(&near), at(&far));
    let is_over = AtomicBool::new(false);
    thread::scope(|s| {
        let mut floods = Vec::new();
        let idle = Agent::open(&near).expect("it serves this user");
        let (to, place) = (end(&idle, 1), elsewhere.address(b"nowhere"));
        let far = idle.own().of_host(&place.host).expect("an address");
        for number in 0..2 {
            let mut port = Agent::open(&near).expect("it serves this user");
            let (is_over, place) = (&is_over, place.clone());
            floods.push(s.spawn(move || {
                let (own, from) = (port.own(), end(&port, 1));
                let local = NetAddress::new(&own.host(), b"flood");
                let mut frames: Vec<(Address, Vec<u8>)> = Vec::new();
                for (address, word) in [
                    // Frames to a program that takes nothing, to no program, to the other agent, and in another
                    // program's name.
                    (own, ack(to, from, 1)),
                    (own, ack(EndId(1), from, 1)),
                    (far, ack(to, from, 1)),
                    (far, ack(from, to, 1)),
                    (own, asked(from, local.clone(), local.clone(), false)),
                    (far, asked(from, local.clone(), place, number == 1)),
                ] {
                    let mut frame = Vec::new();
                    word.emit_for(&mut frame, Checksum::Link);
                    frames.push((address, frame));
                }
                frames.push((own, vec![0; 1400]));
                frames.push((far, vec![2; 1400]));
                while !is_over.load(Ordering::Relaxed) {
                    for (address, frame) in &frames {
                        if let Some(room) = port.slot() {
                            room[..frame.len()].copy_from_slice(frame);
                            port.commit(frame.len(), address).expect("a frame");
                        }
                    }
                    port.flush().expect("the agent is there");
                }
            }));
        }
        for _ in 0..3 {
            converse(&server, &beside);
            converse(&server, &elsewhere);
            converse(&elsewhere, &server);
        }
        is_over.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().expect("it ends"));
        drop(idle);
    });
}

/// Runs `work` in a thread that has become another user. Does nothing unless this process is root's.
fn as_somebody<R: Send>(work: impl FnOnce() -> R + Send) -> Option<R> {
    if call::geteuid() != 0 {
        println!("SKIPPED: only root can become another user");
        return None;
    }
    thread::scope(|s| {
        let somebody = s.spawn(|| {
            // In the kernel, each thread has its own user.
            credentials::become_user(SOMEBODY, SOMEBODY).expect("root may");
            work()
        });
        Some(somebody.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn other_user() {
    let agent = started();
    let why = as_somebody(|| Agent::open(&agent).map(drop));
    if let Some(result) = why {
        assert_eq!(result.expect_err("it is not served").why, Errno::EPERM);
    }
}

fn requests_of_another_user() {
    let agent = name();
    agent_for(&agent, UDP, vec![call::geteuid(), SOMEBODY]).expect("an agent");
    let (owner, client) = (at(&agent), at(&agent));
    let cx = context(&owner);
    let first = owner.listen(&cx.server).expect("it is its own address");
    as_somebody(|| {
        let thief = at(&agent);
        let theirs = thief.listen(&cx.server).expect("it is its own address");
        let far = Context { nic: &client, server: cx.server.clone() };
        let end = End::new(&far);
        thread::scope(|s| {
            s.spawn(|| {
                let accepting = End::new(&cx);
                let taken = loop {
                    if let Some(request) = first.poll() {
                        break request;
                    }
                    thread::yield_now();
                };
                via::Connection::accept(taken, &accepting.vi).expect("accepted");
            });
            request(&far, &end);
        });
        // The owner is not waiting for a request at this moment.
        let again = End::new(&far);
        let asked = again.vi.connect_request(&far.own(7), &cx.server, None);
        assert_eq!(asked.map(drop), Err(ConnectError::NoMatch));
        assert!(theirs.poll().is_none());
        // A program cannot make requests under another program's name.
        let named = End::new(&far);
        let place = thief.address(b"somewhere");
        let asked = named.vi.connect_request(&place, &cx.server, None);
        assert_eq!(asked.map(drop), Err(ConnectError::NoMatch), "no other program has that name");
        let stolen = End::new(&Context { nic: &thief, server: cx.server.clone() });
        let asked = stolen.vi.connect_request(&cx.server, &place, None);
        assert_eq!(asked.map(drop), Err(ConnectError::Rejected));
    });
}

fn share() {
    const SHARE: usize = 256;
    let agent = name();
    agent_for(&agent, UDP, vec![call::geteuid(), SOMEBODY]).expect("an agent");
    as_somebody(|| {
        let all: Vec<_> = (0..SHARE).map(|_| Agent::open(&agent).expect("a place")).collect();
        assert_eq!(Agent::open(&agent).map(drop).expect_err("there is none").why, Errno::EUSERS);
        drop(all);
    });
    // The other user's programs keep their share, even if the first user has used up its own.
    let config = Config::new(Place::Agent(agent));
    converse(&config.open().expect("a place"), &config.open().expect("a place"));
}
