//! The privileged helper: decides if two programs have the two ends of one connection.
//!
//! The helper is a process of its own, which receives messages only from the front end. The helper needs
//! `CAP_SYS_ADMIN` to enter a network namespace. With `CAP_NET_ADMIN`, the helper finds the network namespace of a
//! program's socket. At the start, it needs `CAP_BPF` for the program that reads sequence numbers. `CAP_SYS_ADMIN`
//! includes `CAP_BPF`.
//!
//! The helper believes nothing that a program says about itself. The kernel reports the user that connected
//! (`SO_PEERCRED`) and the network namespace (`SIOCGSKNS`). In that namespace, the socket with the given addresses
//! must belong to that user. The socket must also have the given cookie, which only its holders and users of that
//! namespace can know. The helper uses no process id, because a pid can be reused.

use super::queries::{Place, Query};
use crate::numbers::{Numbers, Reader};
use core::net::SocketAddr;
use sovia_proto::rendezvous::{LINK, Link};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, credentials, diag, netns, poll};

/// Length of a question: the ends that two programs claim. The programs' connections to the agent come with it.
const QUESTION: usize = 2 * LINK;
/// Another question: the network namespace of the program whose connection comes with it.
const WHERE: [u8; 1] = [0];

/// Answer of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    /// The two ends belong to one connection.
    One = 1,
    /// The two ends belong to different connections.
    Different = 2,
    /// The first program does not have its end, or no longer.
    FirstHasNone = 3,
    /// The second program does not have its end.
    SecondHasNone = 4,
}

impl Verdict {
    fn decode(byte: u8) -> Option<Verdict> {
        [Verdict::One, Verdict::Different, Verdict::FirstHasNone, Verdict::SecondHasNone]
            .into_iter()
            .find(|verdict| *verdict as u8 == byte)
    }
}

/// Asks the helper about two programs and waits for the answer. Returns `None` if the kernel cannot carry the
/// question now.
///
/// # Errors
/// The helper has ended.
pub(super) fn ask(
    helper: &Packets,
    first: (&Packets, &Query),
    second: (&Packets, &Query),
) -> sovia_sys::Result<Option<Verdict>> {
    let mut question = [0; QUESTION];
    for (half, (_, query)) in question.chunks_exact_mut(LINK).zip([first, second]) {
        half.copy_from_slice(&query.link.of_role(query.is_connector));
    }
    let mut answer = [0; 2];
    match exchange(helper, &question, &[first.0.raw(), second.0.raw()], &mut answer)? {
        None => Ok(None),
        Some(1) => Verdict::decode(answer[0]).map(Some).ok_or(Errno::EBADMSG),
        Some(_) => Err(Errno::EBADMSG),
    }
}

/// Asks the helper for the network namespace of a program. Returns `None` if there is no answer now.
pub(super) fn place_of(helper: &Packets, program: &Packets) -> sovia_sys::Result<Option<Place>> {
    let mut answer = [0; 17];
    let len = exchange(helper, &WHERE, &[program.raw()], &mut answer)?;
    let half = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| answer[at + i]));
    Ok((len == Some(16)).then(|| (half(0), half(8))))
}

fn exchange(
    helper: &Packets,
    question: &[u8],
    fds: &[i32],
    answer: &mut [u8],
) -> sovia_sys::Result<Option<usize>> {
    match helper.send(question, fds) {
        Ok(()) => receive(helper, answer).map(Some),
        Err(error @ (Errno::EPIPE | Errno::ECONNRESET)) => Err(error),
        // Too many descriptors are in flight to programs that do not receive theirs, or memory is short.
        Err(_) => Ok(None),
    }
}

/// Waits for the next message and returns its length. Returns `ECONNRESET` if the other end is gone.
fn receive(packets: &Packets, buffer: &mut [u8]) -> sovia_sys::Result<usize> {
    loop {
        match packets.receive(buffer) {
            Ok(received) if received.len > 0 => return Ok(received.len),
            Err(Errno::EAGAIN) => poll::wait(packets.raw(), libc::POLLIN),
            Ok(_) => return Err(Errno::ECONNRESET),
            Err(error) => return Err(error),
        }
    }
}

/// The privileged helper.
#[derive(Debug)]
pub(super) struct Helper {
    reader: Reader,
    /// Network namespace in which the helper waits. In a program's namespace, the helper would keep that namespace
    /// alive.
    home: Fd,
}

impl Helper {
    /// Loads the BPF program that reads sequence numbers.
    ///
    /// # Errors
    /// `EPERM` if a privilege is missing.
    pub(super) fn new() -> sovia_sys::Result<Helper> {
        Ok(Helper { reader: Reader::new()?, home: netns::current()? })
    }

    /// Gives up the privileges that were needed only at the start, and tests those that are needed later. An agent
    /// without one of them would find no program's connection. `socket` is any socket of this process.
    ///
    /// # Errors
    /// `EPERM` if a privilege is missing, or an error caused by a sandbox.
    pub(super) fn restrict(&self, socket: &Packets) -> sovia_sys::Result<()> {
        const CAP_NET_ADMIN: u32 = 12;
        const CAP_SYS_ADMIN: u32 = 21;
        credentials::keep_capabilities(&[CAP_NET_ADMIN, CAP_SYS_ADMIN])?;
        netns::enter(&netns::of_socket(socket.raw())?)?;
        diag::is_listened_at(SocketAddr::from(([127, 0, 0, 1], 1))).map(drop)
    }

    /// Answers questions until the front end has ended.
    pub(super) fn serve(&self, front_end: &Packets) -> Errno {
        loop {
            let mut question = [0; QUESTION + 1];
            let received = match front_end.receive(&mut question) {
                Ok(received) if received.len == QUESTION => received,
                Ok(received) if received.len == WHERE.len() => {
                    let place = received
                        .fds
                        .first()
                        .and_then(|program| netns::id(&netns::of_socket(program.raw()).ok()?).ok());
                    let mut answer = [0; 16];
                    let (device, file) = answer.split_at_mut(8);
                    let (of_device, of_file) = place.unwrap_or_default();
                    device.copy_from_slice(&of_device.to_ne_bytes());
                    file.copy_from_slice(&of_file.to_ne_bytes());
                    // One byte means that the namespace is not known.
                    let len = if place.is_some() { answer.len() } else { 1 };
                    match front_end.send(&answer[..len], &[]) {
                        Ok(()) => continue,
                        Err(error) => return error,
                    }
                }
                Err(Errno::EAGAIN) => {
                    poll::wait(front_end.raw(), libc::POLLIN);
                    continue;
                }
                Ok(_) => return Errno::ECONNRESET,
                Err(error) => return error,
            };
            let programs = <[Fd; 2]>::try_from(received.fds);
            let verdict = programs.map_or(Verdict::Different, |programs| {
                self.judge(&question, programs.map(Packets::of))
            });
            if let Err(error) = netns::enter(&self.home) {
                return error;
            }
            if let Err(error) = front_end.send(&[verdict as u8], &[]) {
                return error;
            }
        }
    }

    fn judge(&self, question: &[u8], programs: [Packets; 2]) -> Verdict {
        let half =
            |i: usize| question[i * LINK..][..LINK].try_into().ok().and_then(Link::with_role);
        let (Some(first), Some(second)) = (half(0), half(1)) else { return Verdict::Different };
        if first.1 == second.1 || !first.0.same_connection(&second.0) {
            return Verdict::Different;
        }
        let Some(of_first) = self.numbers(&programs[0], first) else {
            return Verdict::FirstHasNone;
        };
        let Some(of_second) = self.numbers(&programs[1], second) else {
            return Verdict::SecondHasNone;
        };
        let (connector, acceptor) =
            if first.1 { (of_first, of_second) } else { (of_second, of_first) };
        if Numbers::are_of_one(connector, acceptor) { Verdict::One } else { Verdict::Different }
    }

    /// Returns the sequence numbers of a program's end, if the program has the end.
    fn numbers(&self, program: &Packets, (link, is_connector): (Link, bool)) -> Option<Numbers> {
        let (_, user) = program.peer().ok()?;
        netns::enter(&netns::of_socket(program.raw()).ok()?).ok()?;
        let (local, peer) = if is_connector {
            (link.connector, link.acceptor)
        } else {
            (link.acceptor, link.connector)
        };
        let is_its = || {
            let owner = diag::tcp_owner_here(local, peer);
            owner.is_ok_and(|it| it.uid == user && it.cookie == link.cookie && it.is_held)
        };
        // Check the socket before and after. So the numbers are not those of a newer socket with the same addresses.
        let numbers = is_its().then(|| self.reader.read(local, peer, is_connector))??;
        is_its().then_some(numbers)
    }
}
