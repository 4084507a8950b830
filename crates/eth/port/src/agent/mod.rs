//! A port that a process has at its agent (`sovia agent --device`), which owns the device and serves many.
//!
//! Frames lie in two rings in memory that the agent has made ([`ring`]): while both ends look, none costs a system call. The
//! socket on which they have met carries what is said beside frames ([`said`]), the two ends' bells, and the news of the other's end: each
//! end is the only process that has its own end of it, so neither can hold a lock that the other waits for.
//!
//! The agent says which names ends of connections may have here ([`Port::prefix`]), passes on frames of these alone, and takes
//! frames to the port whose names they bear. A program that listens for connections says so ([`Port::listen`]).

pub mod ring;
pub mod said;

use crate::port::Step;
use crate::{Address, Counters, Descriptors, Error, Listens, OpenError, Port, Refused};
use ring::{Consumer, Producer};
use said::{FromAgent, FromProgram, SAID_MAX, Welcome, Why, socket_of};
use sovia_sys::call::{self, RawFd};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, poll, trace};
use std::collections::VecDeque;

/// Frames that one call of [`Port::receive`] takes at most.
const BATCH: usize = 64;

/// A port at an agent.
#[derive(Debug)]
pub struct Agent {
    name: String,
    socket: Packets,
    welcome: Welcome,
    sends: Producer,
    hears: Consumer,
    /// Frames committed since the agent was last rung, if it slept.
    committed: u64,
    /// What the agent is to be told still.
    untold: VecDeque<Vec<u8>>,
    is_gone: bool,
    counters: Counters,
}

impl Agent {
    /// A port at the agent of that name, of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`OpenError`]: `ECONNREFUSED` without such an agent, `EPERM` where it does not serve this user or is another user's, `EUSERS`
    /// where it serves as many programs as it can.
    pub fn open(name: &str) -> Result<Agent, OpenError> {
        let at = socket_of(name).ok_or(Errno::EINVAL).step("invalid name of an agent")?;
        let socket = Packets::connect(&at).step("cannot connect to the agent")?;
        // The process that listens there has all frames in its hands.
        let (_, user) = socket.peer().step("cannot find the agent's user")?;
        let is_own = user == call::geteuid() && !trace::is_ambiguous(user);
        if user != 0 && !is_own {
            return Err(Errno::EPERM).step("the agent runs neither as root nor as this user");
        }
        let (welcome, file) = welcome(&socket)?;
        let (sends, hears) =
            ring::attach(&file, welcome.geometry).step("cannot map the agent's memory")?;
        Ok(Agent {
            name: name.to_owned(),
            socket,
            welcome,
            sends,
            hears,
            committed: 0,
            untold: VecDeque::new(),
            is_gone: false,
            counters: Counters::default(),
        })
    }

    /// The agent's address, at which others reach this port.
    pub fn own(&self) -> Address {
        self.welcome.own
    }

    /// Whether frames travel on a link that finds corrupt ones by itself.
    pub fn link_checks(&self) -> bool {
        self.welcome.link_checks
    }

    fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// Takes what the agent has said: it has rung, or has gone.
    fn hear(&mut self) {
        let mut bytes = [0; SAID_MAX];
        loop {
            match call::recv(self.raw(), &mut bytes, libc::MSG_DONTWAIT) {
                Ok(n) if n > 0 => {}
                Err(Errno::EAGAIN | Errno::EINTR) => return,
                _ => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }

    /// Tells the agent what it is to be told, as far as the socket takes it.
    fn tell(&mut self) {
        while let Some(said) = self.untold.front() {
            match self.socket.send(said, &[]) {
                Ok(()) => drop(self.untold.pop_front()),
                Err(Errno::EAGAIN | Errno::EINTR) => return,
                Err(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }

    /// # Errors
    /// [`Error::Gone`] once it has gone.
    fn health(&self) -> Result<(), Error> {
        if self.is_gone { Err(Error::Gone) } else { Ok(()) }
    }
}

/// What an agent says to a program that has come, and its memory.
fn welcome(socket: &Packets) -> Result<(Welcome, Fd), OpenError> {
    let mut bytes = [0; SAID_MAX + 1];
    let mut received = loop {
        poll::wait(socket.raw(), libc::POLLIN);
        match socket.receive(&mut bytes) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            received => break received.step("cannot receive the agent's welcome")?,
        }
    };
    let (why, what) = match (FromAgent::decode(&bytes[..received.len]), received.fds.pop()) {
        (Some(FromAgent::Welcome(welcome)), Some(file)) => return Ok((welcome, file)),
        (Some(FromAgent::Refused(Why::User)), _) => {
            (Errno::EPERM, "the agent does not serve this user")
        }
        (Some(FromAgent::Refused(Why::Full)), _) => {
            (Errno::EUSERS, "the agent cannot serve more programs of this user")
        }
        _ if received.len == 0 => (Errno::ECONNRESET, "cannot receive the agent's welcome"),
        _ => (Errno::EPROTO, "cannot receive the agent's welcome"),
    };
    Err(why).step(what)
}

impl Port for Agent {
    fn frame_max(&self) -> usize {
        self.welcome.geometry.frame_max() as usize
    }

    fn slot(&mut self) -> Option<&mut [u8]> {
        self.sends.slot()
    }

    fn commit(&mut self, len: usize, to: &Address) -> Result<(), Refused> {
        if len > self.frame_max() {
            self.counters.refused_length += 1;
            return Err(Refused::Length);
        }
        if core::mem::discriminant(to) != core::mem::discriminant(&self.welcome.own) {
            self.counters.refused_address += 1;
            return Err(Refused::Address);
        }
        if !self.sends.commit(to, len) {
            self.counters.refused_full += 1;
            return Err(Refused::Full);
        }
        self.committed += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<usize, Error> {
        if !self.untold.is_empty() {
            self.tell();
        }
        if self.committed > 0 {
            self.counters.sent += core::mem::take(&mut self.committed);
            // Where there is no room for the bell, the agent has not taken what lies there, and will look.
            if self.sends.is_to_ring()
                && self.socket.send(&FromProgram::Bell.encode(), &[]) == Err(Errno::EPIPE)
            {
                self.is_gone = true;
            }
        }
        self.health().map(|()| self.untold.len())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Address, &[u8])) -> Result<usize, Error> {
        let mut frames = 0;
        while frames < BATCH {
            match self.hears.lend(|from, frame| take(from, frame)) {
                Ok(true) => frames += 1,
                Ok(false) => break,
                Err(_) => {
                    self.is_gone = true;
                    break;
                }
            }
        }
        self.counters.received += frames as u64;
        // What had come before the agent went is good.
        if frames > 0 { Ok(frames) } else { self.health().map(|()| 0) }
    }

    fn check(&mut self) -> Result<(), Error> {
        const ENDED: i16 = libc::POLLHUP | libc::POLLERR | libc::POLLRDHUP;
        if poll::probe(self.raw(), libc::POLLRDHUP) & ENDED != 0 {
            self.is_gone = true;
        }
        self.health()
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors { frames: self.raw(), room: self.raw(), news: None }
    }

    fn counters(&mut self) -> Counters {
        self.counters
    }

    fn describe(&self) -> String {
        let count = self.welcome.geometry.count();
        format!("the agent {}, {}, rings of {count} slots", self.name, self.welcome.own)
    }

    fn about_to_sleep(&mut self) -> bool {
        self.hear();
        self.hears.announce_sleep() && !self.is_gone
    }

    fn listen(&mut self, discriminator: &[u8], listens: Listens) {
        let said = match listens {
            Listens::Now => FromProgram::Listen(discriminator),
            Listens::Again => FromProgram::Pause(discriminator),
            Listens::Never => FromProgram::Leave(discriminator),
        };
        self.untold.push_back(said.encode());
        // At once: another program may be told that this one listens.
        self.tell();
    }

    fn prefix(&self) -> Option<u16> {
        Some(self.welcome.prefix)
    }
}
