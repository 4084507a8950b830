//! The part of the agent with privileges: whether two programs have the two ends of one connection.
//!
//! It is a process of its own that hears nothing but the other part, which programs speak to. What it needs: `CAP_SYS_ADMIN` to
//! enter a network namespace, `CAP_NET_ADMIN` to learn which one a program's socket is of, and, once at the start, for the
//! program that reads sequence numbers, `CAP_BPF`, which `CAP_SYS_ADMIN` includes.
//!
//! What a program says of itself is not believed. The kernel says which user connected (`SO_PEERCRED`) and in which network
//! namespace (`SIOCGSKNS`); the socket there with the addresses that it names must be that user's, with the cookie that
//! only its holders and that namespace's users can know. No process id is used, so none can have been given to another
//! process meanwhile.

use super::seeks::{Place, Sought};
use crate::numbers::{Numbers, Reader};
use core::net::SocketAddr;
use sovia_proto::meeting::{LINK, Link};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, credentials, diag, netns, poll};

/// What two programs say that they have, one after the other; with it come their connections to the agent.
const QUESTION: usize = 2 * LINK;
/// In the place of a question: in which network namespace is the program whose connection comes with it?
const WHERE: [u8; 1] = [0];

/// What the witness says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    /// They are the two ends of one connection.
    One = 1,
    /// They are not.
    Different = 2,
    /// The first program has no such connection, or no longer.
    FirstHasNone = 3,
    /// The second has none.
    SecondHasNone = 4,
}

impl Verdict {
    fn decode(byte: u8) -> Option<Verdict> {
        [Verdict::One, Verdict::Different, Verdict::FirstHasNone, Verdict::SecondHasNone]
            .into_iter()
            .find(|verdict| *verdict as u8 == byte)
    }
}

/// Asks the witness of two programs, and waits for its answer. `None` if the kernel does not carry the question just now.
///
/// # Errors
/// The witness has gone.
pub(super) fn ask(
    witness: &Packets,
    first: (&Packets, &Sought),
    second: (&Packets, &Sought),
) -> sovia_sys::Result<Option<Verdict>> {
    let mut question = [0; QUESTION];
    for (half, (_, sought)) in question.chunks_exact_mut(LINK).zip([first, second]) {
        half.copy_from_slice(&sought.link.of_role(sought.is_connector));
    }
    let mut answer = [0; 2];
    match exchange(witness, &question, &[first.0.raw(), second.0.raw()], &mut answer)? {
        None => Ok(None),
        Some(1) => Verdict::decode(answer[0]).map(Some).ok_or(Errno::EBADMSG),
        Some(_) => Err(Errno::EBADMSG),
    }
}

/// Asks the witness in which network namespace a program is. As [`ask`].
pub(super) fn place_of(witness: &Packets, program: &Packets) -> sovia_sys::Result<Option<Place>> {
    let mut answer = [0; 17];
    let len = exchange(witness, &WHERE, &[program.raw()], &mut answer)?;
    let half = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| answer[at + i]));
    Ok((len == Some(16)).then(|| (half(0), half(8))))
}

fn exchange(
    witness: &Packets,
    question: &[u8],
    fds: &[i32],
    answer: &mut [u8],
) -> sovia_sys::Result<Option<usize>> {
    match witness.send(question, fds) {
        Ok(()) => receive(witness, answer).map(Some),
        Err(error @ (Errno::EPIPE | Errno::ECONNRESET)) => Err(error),
        // Too many descriptors are under way to programs that do not take theirs, or there is no memory.
        Err(_) => Ok(None),
    }
}

/// The next message's length, waited for; `ECONNRESET` when the other end is gone.
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

/// The witness.
#[derive(Debug)]
pub(super) struct Witness {
    reader: Reader,
    /// The network namespace in which it waits: it would keep a program's alive.
    home: Fd,
}

impl Witness {
    /// # Errors
    /// `EPERM` where a privilege is missing.
    pub(super) fn new() -> sovia_sys::Result<Witness> {
        Ok(Witness { reader: Reader::new()?, home: netns::current()? })
    }

    /// Gives up the privileges that were needed for the start alone, and tries those that are needed later: an agent that lacks
    /// one, or that a sandbox keeps from their use, would find no program's connection. `socket` is any one of this process's.
    ///
    /// # Errors
    /// `EPERM` where one is missing, or whatever a sandbox says.
    pub(super) fn confine(&self, socket: &Packets) -> sovia_sys::Result<()> {
        const CAP_NET_ADMIN: u32 = 12;
        const CAP_SYS_ADMIN: u32 = 21;
        credentials::keep_capabilities(&[CAP_NET_ADMIN, CAP_SYS_ADMIN])?;
        netns::enter(&netns::of_socket(socket.raw())?)?;
        diag::is_listened_at(SocketAddr::from(([127, 0, 0, 1], 1))).map(drop)
    }

    /// Answers until the other part is gone.
    pub(super) fn serve(&self, speaker: &Packets) -> Errno {
        loop {
            let mut question = [0; QUESTION + 1];
            let received = match speaker.receive(&mut question) {
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
                    // One byte says that there is none.
                    let len = if place.is_some() { answer.len() } else { 1 };
                    match speaker.send(&answer[..len], &[]) {
                        Ok(()) => continue,
                        Err(error) => return error,
                    }
                }
                Err(Errno::EAGAIN) => {
                    poll::wait(speaker.raw(), libc::POLLIN);
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
            if let Err(error) = speaker.send(&[verdict as u8], &[]) {
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

    /// The numbers of a program's end, if it has one.
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
        // The same socket before and after: its number is not another one's that has its addresses now.
        let numbers = is_its().then(|| self.reader.read(local, peer, is_connector))??;
        is_its().then_some(numbers)
    }
}
