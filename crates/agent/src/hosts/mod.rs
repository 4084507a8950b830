//! How two agents of different hosts know each other: a TCP connection between them, on which each shows that it has its key,
//! and on which they agree on a channel for the frames of their NICs.
//!
//! The connection stays for as long as both are there: that it ends is how one learns that the other has died, at once if a
//! process has and the host lives. It carries frames, too, where UDP does not. Of the two the agent with the smaller public key connects, again and again until the
//! other is there; so neither has to be started first.
//!
//! - `key`: the keys; `secure`: the conversation; `terms`: what is said in it.

mod key;
mod secure;
mod terms;

pub use key::{KeyError, PublicKey, SecretKey};

use core::net::SocketAddr;
use core::time::Duration;
use secure::{Ended, Secure};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use terms::{BadTerms, Terms};

/// Conversations that have been begun by whoever can connect; one more ends the oldest.
const GUESTS: usize = 32;
/// Between two tries to connect (nanoseconds).
const RETRY_NS: u64 = 1_000_000_000;
/// A host that answers nothing for so long counts as gone: as long as TCP itself is asked to try.
const SILENCE: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 5;
/// Bytes that are read at once.
const READ: usize = 16 << 10;
/// Bytes to be sent from which on no more frames are taken.
const OUTBOUND: usize = 256 << 10;

/// What a message of the conversation is: its first byte.
const TERMS: u8 = 0;
const FRAME: u8 = 1;

/// Which agents know each other.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where this agent hears the other one, and where frames come: a TCP port and a UDP port.
    pub listen: SocketAddr,
    /// Its key.
    pub key: SecretKey,
    /// The other agent's key.
    pub peer_key: PublicKey,
    /// Where the other agent listens.
    pub peer: SocketAddr,
    /// The addresses for which the other agent may speak: those of its programs' sockets.
    pub peer_networks: Vec<ipnet::IpNet>,
}

impl Config {
    /// Whether the other agent may speak for a program with that address.
    pub(crate) fn speaks_for(&self, address: &SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.peer_networks.iter().any(|network| network.contains(&ip))
    }
}

/// What a channel between the two NICs is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) channel: u32,
    /// This agent's epoch, and the other's.
    pub(crate) epochs: [u32; 2],
    /// Bytes of a frame.
    pub(crate) frame_max: usize,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The other agent is there, another one than before if there was one.
    Met(Agreed),
    /// It has gone.
    Lost,
}

/// Why a conversation is over.
#[derive(Debug, thiserror::Error)]
enum Over {
    #[error("{0}")]
    Stream(#[from] io::Error),
    #[error("it has ended the connection")]
    Hangup,
    #[error("{0}")]
    Secure(#[from] Ended),
    #[error("{0}")]
    Terms(#[from] BadTerms),
}

/// A TCP connection to what may be the other agent.
#[derive(Debug)]
struct Talk {
    stream: TcpStream,
    secure: Secure,
    own: Terms,
    /// Whether this agent has connected.
    first: bool,
    has_said: bool,
    agreed: Option<Agreed>,
    /// Frames that have come.
    frames: Vec<Vec<u8>>,
}

/// An agent's conversations with others.
#[derive(Debug)]
pub(crate) struct Hosts {
    config: Config,
    listener: TcpListener,
    frame_max: usize,
    /// Whether this agent connects.
    connects: bool,
    tried: Option<u64>,
    /// The conversation with the other agent.
    current: Option<Talk>,
    /// Those of which it is not known yet whether they are with it.
    guests: Vec<Talk>,
    /// What was told last of why there is no conversation.
    told: String,
}

impl Hosts {
    /// Listens. Frames of up to `frame_max` bytes are taken.
    pub(crate) fn open(config: Config, frame_max: usize) -> io::Result<Hosts> {
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let connects = config.key.public().bytes() < config.peer_key.bytes();
        let (current, guests, told) = (None, Vec::new(), String::new());
        Ok(Hosts { config, listener, frame_max, connects, tried: None, current, guests, told })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The descriptors that are to be watched for reading, now: others may be there after the next step.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (RawFd, bool)> {
        let talks = self.current.iter().chain(&self.guests);
        let talks = talks.map(|talk| (talk.stream.as_raw_fd(), true));
        core::iter::once((self.listener.as_raw_fd(), false)).chain(talks)
    }

    /// When there is something to do though nothing comes (nanoseconds of the monotonic clock).
    pub(crate) fn deadline(&self) -> Option<u64> {
        (self.connects && self.current.is_none() && self.guests.is_empty())
            .then(|| self.tried.map_or(0, |tried| tried + RETRY_NS))
    }

    /// Does what there is to do, and tells what has happened.
    pub(crate) fn step(&mut self, now: u64) -> Option<Event> {
        self.accept();
        if self.deadline().is_some_and(|due| due <= now) {
            self.tried = Some(now);
            match self.connect() {
                Ok(talk) => self.guests.push(talk),
                Err(error) => self.tell(&error.into()),
            }
        }
        let mut event = None;
        if let Some(talk) = &mut self.current
            && let Err(over) = talk.step()
        {
            self.current = None;
            self.tell(&over);
            event = Some(Event::Lost);
        }
        let mut met = None;
        let mut reasons = Vec::new();
        self.guests.retain_mut(|talk| match talk.step() {
            Ok(()) if talk.agreed.is_some() => {
                met = Some(talk.stream.as_raw_fd());
                true
            }
            Ok(()) => true,
            Err(over) => {
                reasons.push(over);
                false
            }
        });
        reasons.iter().for_each(|over| self.tell(over));
        if let Some(fd) = met
            && let Some(place) = self.guests.iter().position(|talk| talk.stream.as_raw_fd() == fd)
        {
            let talk = self.guests.swap_remove(place);
            event = talk.agreed.map(Event::Met).or(event);
            self.current = Some(talk);
            self.told.clear();
            eprintln!("sovia-agent: the agent at {} is there", self.config.peer);
        }
        event
    }

    /// Whether the conversation takes a frame now.
    pub(crate) fn has_room(&mut self) -> bool {
        self.current.as_mut().is_some_and(|talk| talk.secure.outbound().len() < OUTBOUND)
    }

    /// Sends a frame in the conversation; asked for room before.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        if let Some(talk) = &mut self.current {
            talk.say(FRAME, frame);
        }
    }

    /// Hands to the kernel what there is to be sent, as far as it has room. That there is some again, or that the conversation is
    /// over, the next step finds out.
    pub(crate) fn flush(&mut self) {
        if let Some(talk) = &mut self.current {
            let _ = talk.write();
        }
    }

    /// Frames that have come in the conversation.
    pub(crate) fn take_frames(&mut self) -> Vec<Vec<u8>> {
        self.current.as_mut().map(|talk| core::mem::take(&mut talk.frames)).unwrap_or_default()
    }

    /// Tells once why there is no conversation.
    fn tell(&mut self, over: &Over) {
        let text = over.to_string();
        if text != self.told {
            eprintln!(
                "sovia-agent: no conversation with the agent at {}: {text}",
                self.config.peer
            );
            self.told = text;
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(talk) = self.talk(stream, false) else { continue };
            if self.guests.len() >= GUESTS {
                self.guests.remove(0);
            }
            self.guests.push(talk);
        }
    }

    fn connect(&self) -> io::Result<Talk> {
        let socket =
            Socket::new(Domain::for_address(self.config.peer), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&self.config.peer.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            result => result?,
        }
        self.talk(socket.into(), true)
    }

    fn talk(&self, stream: TcpStream, first: bool) -> io::Result<Talk> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        let keepalive = TcpKeepalive::new().with_time(ASK_EVERY).with_interval(ASK_EVERY);
        socket.set_tcp_keepalive(&keepalive.with_retries(ASK_TIMES))?;
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        let secure = Secure::new(&self.config.key, self.config.peer_key, first);
        let secure = secure.map_err(io::Error::other)?;
        let own = Terms::draw(self.frame_max).ok_or(ErrorKind::Other)?;
        Ok(Talk { stream, secure, own, first, has_said: false, agreed: None, frames: Vec::new() })
    }
}

impl Talk {
    fn say(&mut self, kind: u8, what: &[u8]) {
        let mut message = Vec::with_capacity(1 + what.len());
        message.push(kind);
        message.extend_from_slice(what);
        self.secure.say(&message);
    }

    /// Reads and writes what there is.
    fn step(&mut self) -> Result<(), Over> {
        let mut bytes = [0; READ];
        let end = loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => break Some(Over::Hangup),
                Ok(len) => {
                    self.secure.received(&bytes[..len]);
                    self.hear()?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A connection that is being made.
                Err(error) if error.kind() == ErrorKind::NotConnected => break None,
                Err(error) => break Some(Over::Stream(error)),
            }
        };
        if let Some(over) = end {
            return Err(over);
        }
        if self.secure.is_open() && !self.has_said {
            self.has_said = true;
            self.say(TERMS, &self.own.encode());
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), Over> {
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
            let theirs = match (message.split_first(), self.agreed) {
                (Some((&FRAME, frame)), Some(_)) => {
                    self.frames.push(frame.to_vec());
                    continue;
                }
                (Some((&TERMS, terms)), None) => Terms::decode(terms)?,
                _ => return Err(BadTerms::Nonsense.into()),
            };
            self.agreed = Some(Agreed {
                channel: if self.first { self.own.channel } else { theirs.channel },
                epochs: [self.own.epoch, theirs.epoch],
                frame_max: self.own.frame_max.min(theirs.frame_max) as usize,
            });
        }
        Ok(())
    }
}
