//! How agents of different hosts know each other: a TCP connection between each two, on which each shows that it has its key,
//! and on which they agree on a channel for the frames of their NICs.
//!
//! The connection stays for as long as both are there and the network joins them. It carries frames, too, where UDP does not. When
//! it ends the agents try to have another one. Where both then have the channel of the last one still, that goes on, and the programs
//! notice nothing: a network may be away for long, as for TCP, and an agent may stand still. That the other agent has died is
//! known from two things alone: it has said so in the conversation, as an agent does whose owner ends it; or an agent that has shown the
//! same key does not have the channel. Nothing else is proof: any
//! station on the way can refuse a connection, or accept one and end it, and a process may listen there in its place for a while.
//!
//! Of two agents the one with the smaller public key connects, with waits that double while the other one is not there. The other
//! one knocks when it starts: it connects once, shows its key, and is connected to at once. So neither has to be started first, and
//! neither waits for the other's next try.
//!
//! - `key`: the keys; `peers`: which agents are known; `secure`: what is said, sealed; `terms`: what is said first;
//! - `talk`: one conversation; `retry`: when one is tried.

#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod key;
mod peers;
mod retry;
mod secure;
mod talk;
mod terms;

pub use key::{KeyError, PublicKey, SecretKey};
pub(crate) use peers::PeerId;
pub use peers::{Conflict, Named, Peer, PeerError, Peers, read as read_peers};
pub(crate) use retry::Retry;

use core::net::SocketAddr;
use secure::Secure;
use socket2::{Domain, Protocol, Socket, Type};
use sovia_sys::arrivals::Arrivals;
use sovia_sys::{Errno, Fd, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use talk::{Admitted, Over, Talk};
use terms::Terms;

/// Conversations that any process may have begun which can connect, beside one for each agent that is known; one more ends the oldest.
const GUESTS: usize = 32;
/// Guests that are let in before something else has its turn.
const TURN: usize = 32;
/// How often it is told why a stranger has been refused.
const TOLD: u32 = 64;

/// Which agents know each other.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where this agent hears others, and where frames come: a TCP port and a UDP port.
    pub listen: SocketAddr,
    /// Its key.
    pub key: SecretKey,
    /// The agents that it knows.
    pub peers: Peers,
}

/// A channel between two NICs, by what its frames bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) number: u32,
    /// This agent's epoch, and the other's.
    pub(crate) epochs: [u32; 2],
}

impl Channel {
    /// The same channel, as the other agent has it.
    fn mirrored(self) -> Channel {
        let [own, other] = self.epochs;
        Channel { epochs: [other, own], ..self }
    }
}

/// What two agents have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) channel: Channel,
    /// Both have it still, from an earlier conversation.
    pub(crate) is_held: bool,
    /// Bytes of a frame of a new one.
    pub(crate) frame_max: usize,
}

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The other agent is there: with the channel that goes on, or with a new one, and then it is another agent than before.
    Met(Agreed),
    /// The other agent has a NIC that carries frames, of which this is said.
    Fabric(Vec<u8>),
    /// A frame has come in the conversation.
    Frame(Vec<u8>),
    /// The conversation may have room for frames.
    Room,
    /// The conversation is over. The other agent may be there still.
    Lost,
    /// The other agent has said that it ends. The channel to it is none any more.
    Parted,
}

/// A conversation by its number, and the token by which it is watched.
type Number = u64;
/// The listener's token.
const LISTENER: Number = 0;

/// An agent that is known, and the conversation with it.
#[derive(Debug)]
pub(crate) struct Known {
    /// Bytes of the longest frame that the way to it takes, as far as is known.
    frame_max: usize,
    /// Whether this agent connects, and the other one knocks.
    connects: bool,
    /// The next try, while there is no conversation; one that knocks makes one only.
    retry: Option<Retry>,
    /// The conversation with it, once both have agreed.
    current: Option<Number>,
    /// What has come in before that one was agreed on has a smaller number.
    since: Number,
    /// The try that is under way.
    trying: Option<Number>,
    /// The channel to it, for as long as it is not known to have died.
    held: Option<Channel>,
    /// What was told last of why there is no conversation.
    told: String,
}

/// An agent's conversations with others.
#[derive(Debug)]
pub(crate) struct Hosts {
    config: Config,
    keys: Arc<[PublicKey]>,
    listener: TcpListener,
    arrivals: Arrivals,
    epoll: Fd,
    known: Vec<Known>,
    /// All conversations. Those whose other end is not known yet are guests.
    talks: BTreeMap<Number, Talk>,
    guests: BTreeSet<Number>,
    /// Those that have something to be read still.
    unread: BTreeSet<Number>,
    next: Number,
    /// What is said of this agent's NIC that carries frames, if it has one.
    fabric: Option<Arc<[u8]>>,
    /// Why a stranger was refused last, and how often that was told.
    told: (String, u32),
}

impl Hosts {
    /// Listens. Frames that come from a peer may have as many bytes as is said for it.
    pub(crate) fn open(config: Config, frame_max: &[usize]) -> io::Result<Hosts> {
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        let epoll = Fd::make(poll::epoll_create).map_err(of_errno)?;
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        watch(&epoll, listener.as_raw_fd(), events, LISTENER)?;
        let own = config.key.public();
        let known = |(peer, &frame_max): (&Peer, &usize)| Known {
            frame_max,
            connects: own < peer.key,
            retry: Some(Retry::at_once()),
            current: None,
            since: LISTENER,
            trying: None,
            held: None,
            told: String::new(),
        };
        let known = config.peers.all().iter().zip(frame_max).map(known).collect();
        let keys = config.peers.all().iter().map(|peer| peer.key).collect();
        Ok(Hosts {
            config,
            keys,
            listener,
            arrivals: Arrivals::default(),
            epoll,
            known,
            talks: BTreeMap::new(),
            guests: BTreeSet::new(),
            unread: BTreeSet::new(),
            next: LISTENER + 1,
            fabric: None,
            told: (String::new(), 0),
        })
    }

    /// This agent has a NIC that carries frames of at most that many bytes: `what` is said of it to agents that have one as well.
    pub(crate) fn has_fabric(&mut self, what: &[u8], frame_max: usize) {
        self.known.iter_mut().for_each(|known| known.frame_max = known.frame_max.min(frame_max));
        self.fabric = Some(what.into());
    }

    /// Where this agent listens.
    pub(crate) fn own(&self) -> SocketAddr {
        self.config.listen
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.config.peers
    }

    /// The descriptor that is readable while there is something to do.
    pub(crate) fn raw(&self) -> RawFd {
        self.epoll.raw()
    }

    /// When there is something to do though nothing comes (nanoseconds of the monotonic clock).
    pub(crate) fn deadline(&self) -> Option<u64> {
        if !self.unread.is_empty() {
            return Some(0);
        }
        self.known.iter().filter_map(Known::due).chain(self.arrivals.due()).min()
    }

    /// Does what there is to do, up to a turn, and tells what has happened, to each peer in its order.
    pub(crate) fn step(&mut self, now: u64) -> Vec<(PeerId, Event)> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 32];
        let count = poll::epoll_wait(self.epoll.raw(), &mut events, Some(0), None).unwrap_or(0);
        let mut ready = core::mem::take(&mut self.unread);
        ready.extend(events[..count].iter().map(|event| event.u64));
        if self.arrivals.due().is_some_and(|due| due <= now) {
            ready.insert(LISTENER);
        }
        let mut happened = Vec::new();
        for number in ready {
            if number == LISTENER {
                self.accept();
            } else {
                self.hear(number, &mut happened);
            }
        }
        // Those that have come are heard before others are tried.
        self.try_due(now);
        happened
    }

    /// The channel to a peer, for as long as it is not known to have died.
    pub(crate) fn channel(&self, peer: PeerId) -> Option<Channel> {
        self.known[peer].held
    }

    /// The channel to a peer is none any more on this side.
    pub(crate) fn give_up(&mut self, peer: PeerId) {
        self.known[peer].held = None;
    }

    /// This agent ends, and says so to all others.
    pub(crate) fn part(&mut self) {
        core::mem::take(&mut self.talks).into_values().for_each(Talk::part);
    }

    /// Whether the conversation with a peer takes a frame now.
    pub(crate) fn has_room(&mut self, peer: PeerId) -> bool {
        self.current(peer).is_some_and(Talk::has_room)
    }

    /// Sends a frame in the conversation; asked for room before.
    pub(crate) fn send(&mut self, peer: PeerId, frame: &[u8]) {
        if let Some(talk) = self.current(peer) {
            talk.say_frame(frame);
        }
    }

    /// Hands to the kernel what there is to be sent to a peer, as far as it has room. That there is some again, or that the
    /// conversation is over, the next step finds out.
    pub(crate) fn flush(&mut self, peer: PeerId) {
        if let Some(talk) = self.current(peer) {
            let _ = talk.write();
        }
    }

    fn current(&mut self, peer: PeerId) -> Option<&mut Talk> {
        self.talks.get_mut(&self.known[peer].current?)
    }

    /// Tries to connect where that is due.
    fn try_due(&mut self, now: u64) {
        for peer in 0..self.known.len() {
            let known = &mut self.known[peer];
            let is_due = known.retry.is_some_and(|retry| retry.is_due(now));
            if known.due().is_none() || !is_due {
                continue;
            }
            match &mut known.retry {
                // With connections that depend on it, the other agent is tried until it is there.
                Some(retry) if known.connects || known.held.is_some() => retry.tried(now),
                // One that has not been heard by the other agent is not needed: that one connects when it starts.
                retry => *retry = None,
            }
            match self.connect(peer) {
                Ok(number) => self.known[peer].trying = Some(number),
                Err(error) => self.tell(peer, &error.into()),
            }
        }
    }

    fn connect(&mut self, peer: PeerId) -> io::Result<Number> {
        let Peer { address, key, .. } = self.config.peers.all()[peer];
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            result => result?,
        }
        let secure = Secure::first(&self.config.key, key).map_err(io::Error::other)?;
        self.add(socket.into(), secure, true)
    }

    fn accept(&mut self) {
        let accept = || {
            let failed = |error: io::Error| Errno::new(error.raw_os_error().unwrap_or(libc::EIO));
            self.listener.accept().map(|(stream, _)| stream).map_err(failed)
        };
        for stream in self.arrivals.take(TURN, accept) {
            let secure = Secure::second(&self.config.key, self.keys.clone());
            let Ok(secure) = secure else { continue };
            let Ok(number) = self.add(stream, secure, false) else { continue };
            if self.guests.len() >= GUESTS + self.known.len()
                && let Some(oldest) = self.guests.pop_first()
            {
                self.talks.remove(&oldest);
            }
            self.guests.insert(number);
        }
    }

    fn add(&mut self, stream: TcpStream, secure: Secure, is_first: bool) -> io::Result<Number> {
        let talk = Talk::new(stream, secure, is_first, self.fabric.clone())?;
        let number = self.next;
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        watch(&self.epoll, talk.stream().as_raw_fd(), events, number)?;
        self.next += 1;
        self.talks.insert(number, talk);
        Ok(number)
    }

    /// Something has come in a conversation, or it has room.
    fn hear(&mut self, number: Number, happened: &mut Vec<(PeerId, Event)>) {
        let (peers, known, has_fabric) = (&self.config.peers, &self.known, self.fabric.is_some());
        let Some(talk) = self.talks.get_mut(&number) else { return };
        let heard = talk.step(&mut |key, is_first| {
            let peer = peers.of_key(&key)?;
            let known = &known[peer];
            // A knock is answered by a connection, and not here.
            let is_knock_of_peer = known.connects && !is_first;
            let own = match is_knock_of_peer {
                true => None,
                false => Some(Terms::draw(known.frame_max, known.held, has_fabric)?),
            };
            Some(Admitted { peer, own })
        });
        if talk.has_more {
            self.unread.insert(number);
        }
        let (peer, is_first) = (talk.peer(), talk.is_first);
        let (agreed, has_spoken) = (talk.agreed(), talk.has_spoken());
        let (said_held, has_parted) = (talk.said_held(), talk.has_parted());
        let frames = core::mem::take(&mut talk.frames);
        // The owner is told once both have agreed.
        let fabric = if agreed.is_some() { talk.fabric.take() } else { None };
        if let Err(over) = heard {
            return self.end(number, &over, frames, happened);
        }
        let Some(peer) = peer else { return };
        let known = &mut self.known[peer];
        if known.connects && !is_first {
            if has_spoken {
                self.forget(number);
                self.knocked(peer, number, happened);
            }
            return;
        }
        if agreed.is_some() && known.current != Some(number) && said_held != known.held {
            // What has happened since makes it untrue, and the other agent may go by it.
            return self.end(number, &Over::Hangup, frames, happened);
        }
        if known.connects == is_first
            && let Some(agreed) = agreed
            && known.current != Some(number)
        {
            known.held = Some(agreed.channel);
            let earlier = known.current.replace(number);
            known.since = self.next;
            let trying = known.trying.take().filter(|it| *it != number);
            known.told.clear();
            if let Some(retry) = &mut known.retry {
                retry.succeeded();
            }
            self.guests.remove(&number);
            earlier.into_iter().chain(trying).for_each(|number| self.forget(number));
            let address = self.config.peers.all()[peer].address;
            eprintln!("sovia-agent: connected to the agent at {address}");
            happened.push((peer, Event::Met(agreed)));
        }
        if has_parted {
            if self.known[peer].current == Some(number) {
                self.known[peer].held = None;
                happened.push((peer, Event::Parted));
            }
            // What it has sent before is of no channel any more.
            return self.end(number, &Over::Goodbye, Vec::new(), happened);
        }
        if self.known[peer].current == Some(number) {
            happened.extend(fabric.map(|what| (peer, Event::Fabric(what))));
            happened.extend(frames.into_iter().map(|frame| (peer, Event::Frame(frame))));
            happened.push((peer, Event::Room));
        }
    }

    /// A peer that does not connect has said that it is there, and that it has no conversation.
    fn knocked(&mut self, peer: PeerId, knock: Number, happened: &mut Vec<(PeerId, Event)>) {
        let known = &mut self.known[peer];
        if known.current.is_some() && knock < known.since {
            // It had none when it began to knock. Both have connected at once, as after each outage, and it has what it wants, or is
            // about to. If it has died since, that conversation ends as any does.
            return;
        }
        known.retry = Some(Retry::at_once());
        if let Some(current) = known.current.take() {
            happened.push((peer, Event::Lost));
            return self.forget(current);
        }
        // One that is under way may be of the time before it was there.
        if let Some(trying) = known.trying.take() {
            self.forget(trying);
        }
    }

    /// A conversation is over.
    fn end(
        &mut self,
        number: Number,
        over: &Over,
        frames: Vec<Vec<u8>>,
        happened: &mut Vec<(PeerId, Event)>,
    ) {
        // An agent that does not know this one's key ends the connection without an answer.
        let has_answered = self.talks.get(&number).is_some_and(Talk::has_answered);
        self.forget(number);
        let holds = |known: &Known| [known.current, known.trying].contains(&Some(number));
        let Some(peer) = self.known.iter().position(holds) else {
            return self.refuse(over);
        };
        let known = &mut self.known[peer];
        if known.current == Some(number) {
            known.current = None;
            if !known.connects {
                known.retry = Some(Retry::at_once());
            }
            happened.extend(frames.into_iter().map(|frame| (peer, Event::Frame(frame))));
            happened.push((peer, Event::Lost));
        } else {
            known.trying = None;
            if !known.connects && has_answered && matches!(over, Over::Hangup) {
                // A knock that has been heard.
                return;
            }
        }
        self.tell(peer, over);
    }

    fn forget(&mut self, number: Number) {
        self.talks.remove(&number);
        self.guests.remove(&number);
        self.unread.remove(&number);
    }

    /// Tells once why there is no conversation with a peer.
    fn tell(&mut self, peer: PeerId, over: &Over) {
        let (text, known) = (over.to_string(), &mut self.known[peer]);
        if text != known.told {
            let address = self.config.peers.all()[peer].address;
            eprintln!("sovia-agent: cannot talk to the agent at {address}: {text}");
            known.told = text;
        }
    }

    /// Tells why there is no conversation with one that has come, if that is of an agent.
    fn refuse(&mut self, over: &Over) {
        let text = over.to_string();
        let (told, times) = &mut self.told;
        let is_of_agent = matches!(over, Over::Secure(_) | Over::Terms(_));
        if is_of_agent && text != *told && *times < TOLD {
            *times += 1;
            eprintln!("sovia-agent: cannot talk to an agent that connected: {text}");
            *told = text;
        }
    }
}

impl Known {
    /// When a try is due, if none is under way and there is no conversation.
    fn due(&self) -> Option<u64> {
        let is_idle = self.current.is_none() && self.trying.is_none();
        self.retry.filter(|_| is_idle).map(|retry| retry.due())
    }
}

fn of_errno(errno: sovia_sys::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.into_raw())
}

fn watch(epoll: &Fd, fd: RawFd, events: u32, token: Number) -> io::Result<()> {
    poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, token).map_err(of_errno)
}

#[cfg(test)]
mod tests;
