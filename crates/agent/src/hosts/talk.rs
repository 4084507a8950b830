//! One conversation: a TCP connection to what may be another agent, and what has come in it.

use super::key::PublicKey;
use super::peers::PeerId;
use super::secure::{Ended, Secure};
use super::terms::{BadTerms, Terms};
use super::{Agreed, Channel};
use core::time::Duration;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

/// A conversation in which the other host answers nothing for so long is over, as long as TCP itself is asked to try. That decides
/// only when the next one is tried: the connections that the agents carry wait for it.
const SILENCE: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 5;
/// Bytes that are read at once, and how often before other conversations have their turn.
const READ: usize = 16 << 10;
const TURN: usize = 16;
/// Bytes to be sent from which on no more frames are taken.
const OUTBOUND: usize = 256 << 10;

/// What a message of the conversation is: its first byte.
const TERMS: u8 = 0;
const FRAME: u8 = 1;
/// The agent ends, and its channel with it. The last message.
const GOODBYE: u8 = 2;
/// What NIC the agent has that carries frames, behind the terms of two agents that each have one.
const FABRIC: u8 = 3;
/// Bytes that what is said of a NIC may have.
const FABRIC_MAX: usize = 256;

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("{0}")]
    Stream(#[from] io::Error),
    #[error("that agent closed the connection")]
    Hangup,
    #[error("that agent has ended")]
    Goodbye,
    #[error("{0}")]
    Secure(#[from] Ended),
    #[error("{0}")]
    Terms(#[from] BadTerms),
}

/// What an agent says to one that has shown its key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    pub(super) peer: PeerId,
    /// Nothing, if it has come to say no more than that it is there.
    pub(super) own: Option<Terms>,
}

/// A TCP connection to what may be another agent.
#[derive(Debug)]
pub(super) struct Talk {
    stream: TcpStream,
    secure: Secure,
    /// Whether this agent has connected.
    pub(super) is_first: bool,
    /// The other agent, once it has shown its key.
    admitted: Option<Admitted>,
    theirs: Option<Terms>,
    /// What is said of this agent's NIC, until it has been said.
    own_fabric: Option<Arc<[u8]>>,
    /// What the other agent has said of its NIC.
    pub(super) fabric: Option<Vec<u8>>,
    /// The other agent has said that it ends.
    has_parted: bool,
    /// Frames that have come.
    pub(super) frames: Vec<Vec<u8>>,
    /// There may be more to be read, of which the kernel does not tell again.
    pub(super) has_more: bool,
}

impl Talk {
    pub(super) fn new(
        stream: TcpStream,
        secure: Secure,
        is_first: bool,
        own_fabric: Option<Arc<[u8]>>,
    ) -> io::Result<Talk> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new().with_time(ASK_EVERY).with_interval(ASK_EVERY);
        socket.set_tcp_keepalive(&keepalive.with_retries(ASK_TIMES))?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        Ok(Talk {
            stream,
            secure,
            is_first,
            admitted: None,
            theirs: None,
            own_fabric,
            fabric: None,
            has_parted: false,
            frames: Vec::new(),
            has_more: false,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The other agent, once it has shown its key.
    pub(super) fn peer(&self) -> Option<PeerId> {
        self.admitted.map(|it| it.peer)
    }

    /// Whether the other side has shown its key.
    pub(super) fn has_answered(&self) -> bool {
        self.secure.peer().is_some()
    }

    /// Whether the other agent has said its terms, as a station that repeats what it has heard cannot.
    pub(super) fn has_spoken(&self) -> bool {
        self.theirs.is_some()
    }

    /// Whether the other agent has said that it ends.
    pub(super) fn has_parted(&self) -> bool {
        self.has_parted
    }

    /// What both have agreed on.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        let (own, theirs) = (self.admitted?.own?, self.theirs?);
        let held = own.held.filter(|held| theirs.held == Some(held.mirrored()));
        let drawn = || Channel {
            number: if self.is_first { own.channel } else { theirs.channel },
            epochs: [own.epoch, theirs.epoch],
        };
        Some(Agreed {
            is_held: held.is_some(),
            channel: held.unwrap_or_else(drawn),
            frame_max: own.frame_max.min(theirs.frame_max) as usize,
        })
    }

    /// The channel that this agent has said to have still.
    pub(super) fn said_held(&self) -> Option<Channel> {
        self.admitted?.own?.held
    }

    /// Whether a frame is taken now.
    pub(super) fn has_room(&mut self) -> bool {
        self.secure.outbound().len() < OUTBOUND
    }

    /// Says a frame; asked for room before.
    pub(super) fn say_frame(&mut self, frame: &[u8]) {
        self.say(FRAME, frame);
    }

    /// Says that this agent ends, if it has spoken. Where the kernel has no room for that the other one learns it as if this one had been
    /// killed.
    pub(super) fn part(mut self) {
        if self.admitted.is_none_or(|it| it.own.is_none()) {
            return;
        }
        self.say(GOODBYE, &[]);
        let _ = self.write().map(|()| self.stream.shutdown(Shutdown::Write));
        // With something unread the kernel would reset the connection, and forget what it has not sent.
        let mut bytes = [0; READ];
        while self.stream.read(&mut bytes).is_ok_and(|len| len > 0) {}
    }

    fn say(&mut self, kind: u8, what: &[u8]) {
        let mut message = Vec::with_capacity(1 + what.len());
        message.push(kind);
        message.extend_from_slice(what);
        self.secure.say(&message);
    }

    /// Reads and writes what there is, up to a turn; `admit` is asked once what to say to an agent that has shown that key.
    pub(super) fn step(
        &mut self,
        admit: &mut dyn FnMut(PublicKey, bool) -> Option<Admitted>,
    ) -> Result<(), Over> {
        self.read()?;
        if self.secure.is_open() && self.admitted.is_none() {
            self.admitted = self.secure.peer().and_then(|key| admit(key, self.is_first));
            if let Some(terms) = self.admitted.ok_or(Over::Hangup)?.own {
                self.say(TERMS, &terms.encode());
            }
        }
        if self.tells_of_fabrics()
            && let Some(own) = self.own_fabric.take()
        {
            self.say(FABRIC, &own);
        }
        if self.has_parted { Ok(()) } else { self.write() }
    }

    /// Whether both agents have a NIC of which they tell each other.
    fn tells_of_fabrics(&self) -> bool {
        let own = self.admitted.and_then(|it| it.own);
        [own, self.theirs].into_iter().all(|terms| terms.is_some_and(|it| it.has_fabric))
    }

    fn read(&mut self) -> Result<(), Over> {
        let mut bytes = [0; READ];
        self.has_more = false;
        for _ in 0..TURN {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Over::Hangup),
                Ok(len) => {
                    self.secure.received(&bytes[..len]);
                    self.hear()?;
                    if self.has_parted {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // There is none, or a connection that is being made.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(Over::Stream(error)),
            }
        }
        self.has_more = true;
        Ok(())
    }

    /// Hands to the kernel what there is to be said, as far as it has room.
    pub(super) fn write(&mut self) -> Result<(), Over> {
        let outbound = self.secure.outbound();
        while !outbound.is_empty() {
            match self.stream.write(outbound) {
                Ok(len) => drop(outbound.drain(..len)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) =>
                {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Over> {
        while let Some(message) = self.secure.next()? {
            match (message.split_first(), self.theirs) {
                (Some((&FRAME, frame)), Some(_)) => self.frames.push(frame.to_vec()),
                (Some((&TERMS, terms)), None) => self.theirs = Some(Terms::decode(terms)?),
                (Some((&FABRIC, nic)), Some(_))
                    if self.tells_of_fabrics()
                        && self.fabric.is_none()
                        && nic.len() <= FABRIC_MAX =>
                {
                    self.fabric = Some(nic.to_vec());
                }
                (Some((&GOODBYE, [])), Some(_)) => {
                    self.has_parted = true;
                    return Ok(());
                }
                _ => return Err(BadTerms::Nonsense.into()),
            }
        }
        Ok(())
    }
}
