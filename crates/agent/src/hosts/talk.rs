//! One conversation: the TCP connection to a possible agent, and the data received on it.

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

/// Time without an answer after which TCP ends a conversation. The time only decides when the next conversation is
/// tried: the programs' connections wait for the next one.
const SILENCE: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 5;
/// Bytes of one read, and the number of reads in one turn.
const READ: usize = 16 << 10;
const TURN: usize = 16;
/// Number of unsent bytes from which a conversation takes no more frames.
const OUTBOUND: usize = 256 << 10;

/// Kinds of messages in a conversation, in their first byte.
const TERMS: u8 = 0;
const FRAME: u8 = 1;
/// The agent ends, and so does its channel. No message follows.
const GOODBYE: u8 = 2;
/// Description of the agent's NIC that carries frames. Sent after the terms if both agents have one.
const FABRIC: u8 = 3;
/// Maximum length in bytes of a NIC's description.
const FABRIC_MAX: usize = 256;

/// Reason why a conversation has ended.
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

/// An agent that has proved a known key, and the terms for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Admitted {
    pub(super) peer: PeerId,
    /// Terms to send. `None` for an agent that has only knocked.
    pub(super) own: Option<Terms>,
}

/// A TCP connection to a possible agent.
#[derive(Debug)]
pub(super) struct Talk {
    stream: TcpStream,
    secure: Secure,
    /// True if this agent has connected.
    pub(super) is_first: bool,
    /// The other agent, once it has proved its key.
    admitted: Option<Admitted>,
    theirs: Option<Terms>,
    /// Description of this agent's NIC, until it is sent.
    own_fabric: Option<Arc<[u8]>>,
    /// Description of the other agent's NIC.
    pub(super) fabric: Option<Vec<u8>>,
    /// Set after the other agent has reported that it ends.
    has_parted: bool,
    /// Received frames.
    pub(super) frames: Vec<Vec<u8>>,
    /// Set if there may be more to read. The kernel does not report this data again.
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

    /// Returns the other agent, once it has proved its key.
    pub(super) fn peer(&self) -> Option<PeerId> {
        self.admitted.map(|it| it.peer)
    }

    /// Returns true if the other side has proved its key.
    pub(super) fn has_answered(&self) -> bool {
        self.secure.peer().is_some()
    }

    /// Returns true if the other agent has sent its terms. A station that replays an earlier handshake cannot do so.
    pub(super) fn has_spoken(&self) -> bool {
        self.theirs.is_some()
    }

    /// Returns true if the other agent has reported that it ends.
    pub(super) fn has_parted(&self) -> bool {
        self.has_parted
    }

    /// Returns the result, once both agents have sent their terms.
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

    /// Returns the channel that this agent has claimed to still have.
    pub(super) fn said_held(&self) -> Option<Channel> {
        self.admitted?.own?.held
    }

    /// Returns true if the conversation takes a frame now.
    pub(super) fn has_room(&mut self) -> bool {
        self.secure.outbound().len() < OUTBOUND
    }

    /// Sends a frame. Call [`Talk::has_room`] first.
    pub(super) fn say_frame(&mut self, frame: &[u8]) {
        self.say(FRAME, frame);
    }

    /// Reports that this agent ends, if it has sent terms. If the kernel has no room for the message, the other agent
    /// only sees that the connection is lost.
    pub(super) fn part(mut self) {
        if self.admitted.is_none_or(|it| it.own.is_none()) {
            return;
        }
        self.say(GOODBYE, &[]);
        let _ = self.write().map(|()| self.stream.shutdown(Shutdown::Write));
        // Read all data: with unread data, the kernel would reset the connection and drop unsent data.
        let mut bytes = [0; READ];
        while self.stream.read(&mut bytes).is_ok_and(|len| len > 0) {}
    }

    fn say(&mut self, kind: u8, what: &[u8]) {
        let mut message = Vec::with_capacity(1 + what.len());
        message.push(kind);
        message.extend_from_slice(what);
        self.secure.say(&message);
    }

    /// Reads and writes, up to a limit. Once the other side has proved its key, `admit` returns the terms for it.
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

    /// Returns true if both agents have a NIC that carries frames.
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
                // No data has arrived, or the connection is not complete yet.
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

    /// Passes unsent data to the kernel, as far as the kernel has room.
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
