//! A first rendezvous between the honest side's real code and a hostile peer.
//!
//! The hostile peer is this process under another name. The kernel confirms its user and process id. The peer
//! holds the other end of the connection, and it could trace the honest side. So only the checks of its
//! messages and descriptors reject the peer. An input without a forgery ends with an accelerated connection.

use crate::honest::Honest;
use crate::tcp::Ends;
use sovia_ring::Segment;
use sovia_ring::layout::DOORBELLS;
use sovia_sockets::conn::Role;
use sovia_sockets::fuzzing::{self, Connection, Words};
use sovia_sys::datagram::{Datagram, Name, Received};
use sovia_sys::trace::{self, Challenge};
use sovia_sys::{Fd, call};
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Numbers of the steps in messages.
pub mod step {
    /// The acceptor has the other end.
    pub const HELLO: usize = 1;
    /// The connector hands over the segment.
    pub const OFFER: usize = 2;
    /// The acceptor hands over its doorbells.
    pub const ACCEPT: usize = 3;
    /// The connector asks for the challenge to be read.
    pub const ASK: usize = 4;
    /// The acceptor has read it.
    pub const SHOW: usize = 5;
}

/// The nonce of the hostile peer: its name is not the honest side's.
const NONCE: u64 = 0x686f_7374_696c_6500;
/// Bytes that the largest message may have here.
const LONGEST: usize = 512;

/// Both sides of a rendezvous.
#[derive(Debug)]
pub struct Stand {
    /// The honest side.
    pub honest: Honest,
    /// The honest side's role.
    role: Role,
    /// The hostile side's end of the connection.
    tcp: TcpStream,
    /// The connection, as the hostile side names it.
    connection: Connection,
    /// The hostile side's name; the rendezvous name if it is the connector.
    socket: Datagram,
    /// Address from which the honest side has sent.
    to: Option<Name>,
    challenge: Challenge,
    /// Secret in the honest side's challenge.
    shown: trace::Secret,
    /// The segment, once the hostile side has made one or has been offered one.
    pub segment: Option<(Segment, Fd)>,
}

impl Stand {
    /// A connection whose ends have not met yet.
    ///
    /// # Panics
    /// Where the system gives no sockets.
    pub fn new(role: Role) -> Stand {
        let ends = Ends::new();
        let (own, theirs) = match role {
            Role::Connector => (&ends.connector, &ends.acceptor),
            Role::Acceptor => (&ends.acceptor, &ends.connector),
        };
        let connection = ends.named_by(theirs);
        let rendezvous = rendezvous(connection);
        let socket = match role {
            Role::Connector => Datagram::bind(None),
            Role::Acceptor => Datagram::bind(Some(&rendezvous)),
        };
        let honest = Honest::new(own.try_clone().expect("no descriptor"), role);
        Stand {
            honest,
            role,
            tcp: theirs.try_clone().expect("no descriptor"),
            connection,
            socket: socket.expect("no name"),
            // The connector's name follows from the connection.
            to: matches!(role, Role::Connector).then_some(rendezvous),
            challenge: Challenge::new().expect("no memory file"),
            shown: trace::Secret::default(),
            segment: None,
        }
    }

    /// A transfer over TCP at the honest side, which takes a step of the rendezvous.
    pub fn transfer(&mut self) {
        match self.role {
            Role::Connector => {
                let _ = self.honest.send(b"x");
            }
            Role::Acceptor => {
                let _ = (&self.tcp).write(b"x");
                let _ = self.honest.receive(&mut [0; 8], false);
            }
        }
        self.hear();
    }

    /// Takes what the honest side has said.
    fn hear(&mut self) {
        let mut bytes = [0; LONGEST];
        while let Ok(received) = self.socket.receive(&mut bytes) {
            self.to = received.sender.or(self.to);
            let heard = fuzzing::read_message(&bytes[..received.len.min(LONGEST)]);
            let Some((_, kind, words)) = heard else { continue };
            if matches!(kind, step::ASK | step::SHOW) {
                self.shown = trace::read_challenge(words.pid, words.place).unwrap_or(self.shown);
            }
            self.take(kind, received);
        }
    }

    fn take(&mut self, kind: usize, mut received: Received) {
        if kind == step::OFFER && !received.fds.is_empty() {
            let file = received.fds.swap_remove(0);
            self.segment = Segment::attach(&file).ok().map(|segment| (segment, file));
        }
    }

    /// A message that an honest peer could send now.
    pub fn message(&self, step: usize) -> Vec<u8> {
        let words = Words {
            pid: call::getpid(),
            nonce: NONCE,
            place: self.challenge.place(),
            shown: self.shown,
        };
        fuzzing::message(step, self.connection, words)
    }

    /// Sends to wherever the honest side listens.
    pub fn send(&self, message: &[u8], fds: &[i32]) {
        if let Some(to) = &self.to {
            let _ = self.socket.send_to(to, message, fds);
        }
    }

    /// The hostile side's own segment, made when it is first needed.
    ///
    /// # Panics
    /// If there is no memory.
    pub fn own_segment(&mut self) -> i32 {
        let made = self.segment.get_or_insert_with(|| Segment::create().expect("no memory"));
        made.1.raw()
    }

    /// Does an honest peer's part in the segment: requests the connection, or accepts the request for
    /// it.
    pub fn settle(&self) {
        let Some((segment, _)) = &self.segment else { return };
        let theirs = match self.role {
            Role::Connector => 1,
            Role::Acceptor => 0,
        };
        if theirs == 0 {
            segment.request_connection(0, &self.connection.discriminator());
        } else {
            let mut found = Vec::new();
            segment.pending(theirs, |request, _| found.push(request));
            for request in found {
                segment.accept(theirs, request);
            }
        }
    }

    /// Returns the honest side's role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Changes the TCP end: more bytes, or its end.
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Ends the story.
    pub fn end(self) {
        let fd = self.tcp.as_raw_fd();
        drop(self);
        let _ = fd;
        fuzzing::forget_peers();
    }
}

/// Returns the descriptors that an honest peer sends beside the segment: doorbells, a pidfd, and the reading end
/// of a pipe. The caller owns them.
///
/// # Panics
/// If the system refuses a descriptor.
pub fn own_descriptors() -> Vec<Fd> {
    let mut all: Vec<Fd> = (0..DOORBELLS)
        .map(|_| {
            Fd::keep(call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).expect("no eventfd"))
        })
        .collect();
    all.push(Fd::keep(call::pidfd_of_self().expect("no pidfd")));
    let [read, write] = call::pipe().expect("no pipe");
    all.push(Fd::keep(read));
    all.push(Fd::keep(write));
    all
}

fn rendezvous(connection: Connection) -> Name {
    let name = format!("sovia/{}-{}", connection.connector, connection.acceptor);
    Name::new(name.as_bytes()).expect("a short name")
}
