//! A program of this host: the segment that the program and the NIC share, and the program's descriptors.

use crate::closer::{self, take_leave};
use crate::in_flight::InFlight;
use sovia_proto::rendezvous::{INTRODUCTION, Introduction, NIC_NAME, Process};
use sovia_ring::Segment;
use sovia_ring::doorbell::is_doorbell;
use sovia_ring::layout::DOORBELLS;
use sovia_ring::ready_list::ReadyList;
use sovia_ring::segment::SideIndex;
use sovia_sys::arrivals::Arrivals;
use sovia_sys::datagram::Name;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::trace::{self, Challenge, Secret};
use sovia_sys::{Errno, Fd, call, poll};
use std::collections::HashMap;
use std::sync::Arc;

use crate::wire::Id;

/// The program's side of the segment. The program creates the segment.
pub(crate) const PROGRAM: SideIndex = 0;
/// The NIC's side of the segment.
pub(crate) const NIC: SideIndex = 1;
/// Number of the NIC's ready list in each segment, and of the doorbell for this list.
pub(crate) const READY_LIST: u32 = 0;
/// Number of descriptors that report deaths: a pidfd, and a pipe that hangs up with the last process that has the
/// segment.
const NOTICES: usize = 2;
/// Number of descriptors that a program sends: the segment, its doorbells, its notices.
const HANDED: usize = 1 + DOORBELLS + NOTICES;

/// State of a program's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process is alive.
    Alive,
    /// The process has died. Its forked children may hold its connections.
    ProcessDied,
    /// No process is left that has the segment.
    AllDied,
}

/// A program that shares a segment with the NIC.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) segment: Arc<Segment>,
    doors: [Fd; DOORBELLS],
    pub(crate) notices: [Fd; NOTICES],
    pub(crate) uid: u32,
    /// Requested or connected VIs, with the numbers of their connections.
    pub(crate) vis: HashMap<u32, Id>,
    pub(crate) in_flight: InFlight,
    /// Time when all processes were first found dead, in nanoseconds of the monotonic clock.
    pub(crate) died_at: Option<u64>,
}

impl Program {
    /// Makes a program from its descriptors. Returns `None` if they are not the expected ones.
    pub(crate) fn of(fds: Vec<Fd>, uid: u32) -> Option<Program> {
        let [segment, a, b, c, d, e, f, process, all] = <[Fd; HANDED]>::try_from(fds).ok()?;
        let doors = [a, b, c, d, e, f];
        if !doors.iter().all(is_doorbell) {
            return None;
        }
        let segment = Arc::new(Segment::attach(&segment).ok()?);
        let notices = [process, all];
        let (vis, in_flight) = (HashMap::new(), InFlight::default());
        let program = Program { segment, doors, notices, uid, vis, in_flight, died_at: None };
        // Reset the list before the program gets an answer. From then on, the program may request VIs.
        program.ready_list().reset(READY_LIST);
        Some(program)
    }

    /// Returns the NIC's ready list in the segment, in which the program marks VIs with events.
    pub(crate) fn ready_list(&self) -> &ReadyList {
        self.segment.ready_list(NIC, READY_LIST)
    }

    /// Sets a VI's bit in the program's ready lists that the bitmap `ready_lists` names. Rings the doorbell of each
    /// list whose owner sleeps.
    pub(crate) fn notify(&self, vi: u32, mut ready_lists: u32) {
        while ready_lists != 0 {
            let index = ready_lists.trailing_zeros();
            ready_lists &= ready_lists - 1;
            if let Some(door) = self.segment.ready_list(PROGRAM, index).notify(vi) {
                self.ring(door);
            }
        }
    }

    /// Rings one of the program's doorbells.
    pub(crate) fn ring(&self, door: u32) {
        // If the eventfd's counter is full, the doorbell has already rung.
        let _ = call::write(self.doors[door as usize % DOORBELLS].raw(), &1u64.to_ne_bytes());
    }

    /// Returns the state of the program's processes.
    pub(crate) fn life(&self) -> Life {
        let [process, all] = &self.notices;
        if poll::probe(all.raw(), 0) & libc::POLLHUP != 0 {
            Life::AllDied
        } else if poll::probe(process.raw(), libc::POLLIN) & libc::POLLIN != 0 {
            Life::ProcessDied
        } else {
            Life::Alive
        }
    }
}

/// Reason why the NIC does not serve a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The program disconnected.
    #[error("the program disconnected too early to be served")]
    Gone,
    /// The program runs as another user.
    #[error("the program runs as user {0}: expected the agent's own user")]
    User(u32),
    /// The first message is not an introduction of this version.
    #[error("the program's first message is not a greeting of this agent's version")]
    Introduction,
    /// The program and the NIC may not read each other's memory.
    #[error("the kernel does not let the program and the agent trace each other")]
    NotTraceable,
    /// The descriptors are not the expected ones.
    #[error("the program did not send the expected file descriptors")]
    Descriptors,
}

/// A program of this user that has connected, but has not been accepted.
#[derive(Debug)]
pub(crate) struct Stranger {
    packets: Packets,
    /// Secret that the program must read, to prove that it could trace the NIC.
    challenge: Option<Challenge>,
}

/// Progress of a program's introduction.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The program must send another message.
    More,
    /// The program has been accepted.
    Program(Box<Program>),
}

/// Socket at which programs of this host connect, and the descriptors that they get.
#[derive(Debug)]
pub(crate) struct Entrance {
    listener: Listener,
    arrivals: Arrivals,
    /// The NIC's own doorbells.
    pub(crate) doors: Vec<Fd>,
    notices: Vec<Fd>,
    me: Process,
}

impl Entrance {
    /// Opens the socket of the NIC `name`.
    pub(crate) fn open(name: &str) -> sovia_sys::Result<Entrance> {
        let name = Name::new(format!("{NIC_NAME}{name}").as_bytes()).ok_or(Errno::ENAMETOOLONG)?;
        let listener = Listener::bind(&name)?;
        let door = || Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK));
        let doors = (0..DOORBELLS).map(|_| door()).collect::<sovia_sys::Result<Vec<Fd>>>()?;
        let [reading, writing] = call::pipe()?;
        // The kernel closes the writing end when the NIC ends.
        Fd::adopt(writing).into_raw();
        let notices = vec![Fd::make(call::pidfd_of_self)?, Fd::adopt(reading)];
        let mut nonce = [0; 8];
        call::getrandom(&mut nonce)?;
        let me = Process { pid: call::getpid(), nonce: u64::from_ne_bytes(nonce) };
        Ok(Entrance { listener, arrivals: Arrivals::default(), doors, notices, me })
    }

    /// Returns the descriptor that becomes readable when a program connects.
    pub(crate) fn raw(&self) -> i32 {
        self.listener.raw()
    }

    /// Returns up to `most` programs that have connected. A program of another user is refused before the NIC reads
    /// its messages, so such messages cost the NIC nothing.
    pub(crate) fn accept(&mut self, most: usize) -> Vec<Result<Stranger, Refused>> {
        let come = self.arrivals.take(most, || self.listener.accept());
        let admit = |packets: Packets| match packets.peer() {
            Ok((_, uid)) if uid == call::geteuid() && !trace::is_ambiguous(uid) => {
                Ok(Stranger { packets, challenge: None })
            }
            Ok((_, uid)) => {
                take_leave(&packets, uid);
                Err(Refused::User(uid))
            }
            Err(_) => Err(Refused::Gone),
        };
        come.into_iter().map(admit).collect()
    }

    /// Returns when to look for programs again ([`Arrivals::due`]).
    pub(crate) fn due(&self) -> Option<u64> {
        self.arrivals.due()
    }

    /// Reads the program's next message and answers it.
    pub(crate) fn hear(&self, stranger: &mut Stranger) -> Result<Heard, Refused> {
        let packets = &stranger.packets;
        closer::now_of(call::geteuid());
        let mut buffer = [0; INTRODUCTION + 1];
        let mut received = match packets.receive(&mut buffer) {
            Ok(received) if received.len > 0 => received,
            Err(Errno::EAGAIN) => return Ok(Heard::More),
            _ => return Err(Refused::Gone),
        };
        let (pid, uid) = packets.peer().map_err(|_| Refused::Gone)?;
        if received.truncated {
            return Err(Refused::Introduction);
        }
        let said = Introduction::decode(&buffer[..received.len]).ok_or(Refused::Introduction)?;
        let Some(challenge) = &stranger.challenge else {
            let shown = trace::read_challenge(pid, said.place).ok_or(Refused::NotTraceable)?;
            let challenge = Challenge::new().map_err(|_| Refused::NotTraceable)?;
            let answer = Introduction { from: self.me, place: challenge.place(), shown };
            packets.send(&answer.encode(), &[]).map_err(|_| Refused::Gone)?;
            stranger.challenge = Some(challenge);
            return Ok(Heard::More);
        };
        if !challenge.is_met_by(&said.shown) {
            return Err(Refused::NotTraceable);
        }
        let fds = core::mem::take(&mut received.fds);
        let program = Program::of(fds, uid).ok_or(Refused::Descriptors)?;
        let own: Vec<i32> = self.doors.iter().chain(&self.notices).map(Fd::raw).collect();
        let answer = Introduction { from: self.me, place: -1, shown: Secret::default() };
        packets.send(&answer.encode(), &own).map_err(|_| Refused::Gone)?;
        Ok(Heard::Program(Box::new(program)))
    }
}

impl Stranger {
    /// Returns the descriptor that becomes readable when the program has sent a message.
    pub(crate) fn raw(&self) -> i32 {
        self.packets.raw()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        take_leave(&self.packets, call::geteuid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// Makes a connection with unsent bytes that its peer never reads. The last process to close it waits for an
    /// hour.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let fd = stream.as_raw_fd();
        call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 3600]).unwrap();
        (stream, peer)
    }

    /// Otherwise any program could stop the whole NIC.
    #[test]
    fn closing_the_descriptors_of_a_program_never_blocks_the_nic() {
        closer::start().unwrap();
        let name = format!("test-{}", call::getpid());
        let mut entrance = Entrance::open(&name).unwrap();
        let name = Name::new(format!("{NIC_NAME}{name}").as_bytes()).unwrap();
        let mut peers = Vec::new();
        for is_heard in [true, false] {
            let program = Packets::connect(&name).unwrap();
            let (stream, peer) = lingering();
            program.send(b"nonsense", &[stream.as_raw_fd()]).unwrap();
            drop((program, stream));
            peers.push(peer);
            let mut stranger = entrance.accept(1).remove(0).unwrap();
            if is_heard {
                assert!(matches!(entrance.hear(&mut stranger), Err(Refused::Introduction)));
            }
        }
        // Let the closer thread finish: without the peers, closing does not wait.
        drop(peers);
    }
}
