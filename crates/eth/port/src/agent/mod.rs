//! A port at an agent (`sovia agent --device`). The agent owns the device, and serves several processes.
//!
//! Frames lie in two rings in memory that the agent creates ([`ring`]). While both ends poll, a frame costs no system
//! call. The socket to the agent carries the messages besides frames ([`said`]), wakes a sleeping end, and reports the
//! end of the other process. Each process owns its end of the socket alone, so neither process can hold a lock that the
//! other needs.
//!
//! The agent chooses a prefix for the names of this program's ends ([`Port::prefix`]). The agent forwards only frames
//! from these names, and delivers each frame to the port whose prefix its name has. A program that listens for
//! connections tells the agent ([`Port::listen`]).

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

/// Maximum number of frames that one call of [`Port::receive`] takes.
const BATCH: usize = 64;

/// A port at an agent.
#[derive(Debug)]
pub struct Agent {
    name: String,
    socket: Packets,
    welcome: Welcome,
    sends: Producer,
    hears: Consumer,
    /// Number of frames committed since the last wake-up of the agent, if the agent slept.
    committed: u64,
    /// Messages that the agent has not received yet.
    untold: VecDeque<Vec<u8>>,
    is_gone: bool,
    counters: Counters,
}

impl Agent {
    /// Opens a port at the agent with this name, in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an [`OpenError`] with one of these reasons, among others:
    ///
    /// - `ECONNREFUSED`: the agent does not exist;
    /// - `EPERM`: the agent does not serve this user, or belongs to another user;
    /// - `EUSERS`: the agent has no free place for a program.
    pub fn open(name: &str) -> Result<Agent, OpenError> {
        let at = socket_of(name).ok_or(Errno::EINVAL).step("invalid name of an agent")?;
        let socket = Packets::connect(&at).step("cannot connect to the agent")?;
        // The listening process will handle all frames, so its user must be trusted.
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

    /// Returns the agent's address, at which peers reach this port.
    pub fn own(&self) -> Address {
        self.welcome.own
    }

    /// Returns true if the link detects corrupt frames.
    pub fn link_checks(&self) -> bool {
        self.welcome.link_checks
    }

    fn raw(&self) -> RawFd {
        self.socket.raw()
    }

    /// Reads the agent's messages, and notices the agent's end.
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

    /// Sends waiting messages to the agent, as far as the socket takes them.
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
    /// Returns [`Error::Gone`] after the agent's end.
    fn health(&self) -> Result<(), Error> {
        if self.is_gone { Err(Error::Gone) } else { Ok(()) }
    }
}

/// Receives an agent's welcome and its memory.
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
            // If the socket is full, the agent has unread wake-ups and will look at the ring.
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
        // Frames that arrived before the agent's end are valid.
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
        // Sent at once, because another program may learn that this one listens.
        self.tell();
    }

    fn prefix(&self) -> Option<u16> {
        Some(self.welcome.prefix)
    }
}
