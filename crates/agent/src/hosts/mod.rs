//! TCP connections (*conversations*) between agents of different hosts. On each, both agents prove their keys. Then
//! they agree on a channel for the frames of their NICs.
//!
//! The two agents keep the conversation while both run and the network connects them. The conversation also carries
//! frames if UDP cannot. When the conversation ends, the agents try to begin another. If both still have the channel
//! of the last one, the channel continues, and the programs notice nothing. So a network may fail for as long as TCP
//! allows, and an agent may be stopped.
//!
//! Only two events prove that the other agent has died. Either the agent reports its end in the conversation, as it
//! does when its owner ends it. Or an agent with the same key no longer has the channel. Nothing else is proof: any
//! station on the path can refuse a connection, or accept and end it. A foreign process may also listen at the
//! address for a while.
//!
//! Of two agents, the one with the smaller public key connects. The delay between its tries doubles while the other
//! agent does not answer. The other agent *knocks* when it starts: it connects once and proves its key. The first
//! agent then connects at once. So the agents may start in any order, and neither waits for the other's next try.
//!
//! - `key`: keys. `peers`: known agents. `secure`: encryption and authentication. `terms`: the first message.
//! - `talk`: one conversation. `retry`: times of the tries.

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

/// Maximum number of accepted conversations with unknown agents, in addition to one for each known agent. A further
/// one ends the oldest.
const GUESTS: usize = 32;
/// Maximum number of connections accepted in one turn.
const TURN: usize = 32;
/// Maximum number of reports about refused agents.
const TOLD: u32 = 64;

/// Address and key of an agent, and the agents that it knows.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address and port at which this agent accepts TCP connections and receives frames by UDP.
    pub listen: SocketAddr,
    /// Secret key of this agent.
    pub key: SecretKey,
    /// Agents that this agent knows.
    pub peers: Peers,
}

/// Channel between two NICs, as identified in its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) number: u32,
    /// Epoch of this agent, and of the other one.
    pub(crate) epochs: [u32; 2],
}

impl Channel {
    /// Returns the same channel as the other agent sees it.
    fn mirrored(self) -> Channel {
        let [own, other] = self.epochs;
        Channel { epochs: [other, own], ..self }
    }
}

/// Result of the exchange of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) channel: Channel,
    /// True if both agents still have the channel from an earlier conversation.
    pub(crate) is_held: bool,
    /// Length in bytes of the longest frame on a new channel.
    pub(crate) frame_max: usize,
}

/// Event of a conversation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A conversation with the other agent has begun. With a new channel, the other agent is new or has restarted.
    Met(Agreed),
    /// The other agent has a NIC that carries frames. The bytes describe the NIC.
    Fabric(Vec<u8>),
    /// A frame has arrived in the conversation.
    Frame(Vec<u8>),
    /// The conversation may have room for frames.
    Room,
    /// The conversation has ended. The other agent may still run.
    Lost,
    /// The other agent has reported that it ends. Its channel no longer exists.
    Parted,
}

/// Number of a conversation, and its token in the epoll set.
type Number = u64;
/// Token of the listener.
const LISTENER: Number = 0;

/// A known agent, and the conversation with it.
#[derive(Debug)]
pub(crate) struct Known {
    /// Length in bytes of the longest frame that the path is known to carry.
    frame_max: usize,
    /// True if this agent connects and the other one knocks.
    connects: bool,
    /// Next try while there is no conversation. An agent that knocks tries only once.
    retry: Option<Retry>,
    /// Conversation with the agent, once both have agreed.
    current: Option<Number>,
    /// Conversations with a smaller number began before the current one was agreed on.
    since: Number,
    /// Try in progress.
    trying: Option<Number>,
    /// Channel to the agent. Kept until the agent is known to have died.
    held: Option<Channel>,
    /// Last reported reason why there is no conversation.
    told: String,
}

/// Conversations of an agent with other agents.
#[derive(Debug)]
pub(crate) struct Hosts {
    config: Config,
    keys: Arc<[PublicKey]>,
    listener: TcpListener,
    arrivals: Arrivals,
    epoll: Fd,
    known: Vec<Known>,
    /// All conversations. Guests are those whose other end is not known yet.
    talks: BTreeMap<Number, Talk>,
    guests: BTreeSet<Number>,
    /// Conversations with unread data.
    unread: BTreeSet<Number>,
    next: Number,
    /// Description of this agent's NIC that carries frames, if it has one.
    fabric: Option<Arc<[u8]>>,
    /// Last reported reason for a refusal, and the number of such reports.
    told: (String, u32),
}

impl Hosts {
    /// Listens for other agents. `frame_max` gives the length of the longest frame for each peer.
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

    /// Sets this agent's NIC that carries frames, with frames of at most `frame_max` bytes. Agents that also have one
    /// are sent the description `what`.
    pub(crate) fn has_fabric(&mut self, what: &[u8], frame_max: usize) {
        self.known.iter_mut().for_each(|known| known.frame_max = known.frame_max.min(frame_max));
        self.fabric = Some(what.into());
    }

    /// Returns the address at which this agent listens.
    pub(crate) fn own(&self) -> SocketAddr {
        self.config.listen
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.config.peers
    }

    /// Returns the descriptor that is readable while there is something to do.
    pub(crate) fn raw(&self) -> RawFd {
        self.epoll.raw()
    }

    /// Returns when the next timer is due, in nanoseconds of the monotonic clock.
    pub(crate) fn deadline(&self) -> Option<u64> {
        if !self.unread.is_empty() {
            return Some(0);
        }
        self.known.iter().filter_map(Known::due).chain(self.arrivals.due()).min()
    }

    /// Does a bounded amount of work. Returns the events, in order for each peer.
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
        // Handle conversations that have begun before new ones are tried.
        self.try_due(now);
        happened
    }

    /// Returns the channel to a peer, until the peer is known to have died.
    pub(crate) fn channel(&self, peer: PeerId) -> Option<Channel> {
        self.known[peer].held
    }

    /// Forgets the channel to a peer.
    pub(crate) fn give_up(&mut self, peer: PeerId) {
        self.known[peer].held = None;
    }

    /// Ends this agent, and reports the end to all other agents.
    pub(crate) fn part(&mut self) {
        core::mem::take(&mut self.talks).into_values().for_each(Talk::part);
    }

    /// Returns true if the conversation with a peer can take a frame now.
    pub(crate) fn has_room(&mut self, peer: PeerId) -> bool {
        self.current(peer).is_some_and(Talk::has_room)
    }

    /// Sends a frame in the conversation. Call [`Hosts::has_room`] first.
    pub(crate) fn send(&mut self, peer: PeerId, frame: &[u8]) {
        if let Some(talk) = self.current(peer) {
            talk.say_frame(frame);
        }
    }

    /// Passes unsent data for a peer to the kernel, as far as the kernel has room. The next [`Hosts::step`] reports
    /// new room, or the end of the conversation.
    pub(crate) fn flush(&mut self, peer: PeerId) {
        if let Some(talk) = self.current(peer) {
            let _ = talk.write();
        }
    }

    fn current(&mut self, peer: PeerId) -> Option<&mut Talk> {
        self.talks.get_mut(&self.known[peer].current?)
    }

    /// Starts the tries that are due.
    fn try_due(&mut self, now: u64) {
        for peer in 0..self.known.len() {
            let known = &mut self.known[peer];
            let is_due = known.retry.is_some_and(|retry| retry.is_due(now));
            if known.due().is_none() || !is_due {
                continue;
            }
            match &mut known.retry {
                // While connections depend on the other agent, try until it answers.
                Some(retry) if known.connects || known.held.is_some() => retry.tried(now),
                // An unanswered knock need not be repeated: the other agent connects when it starts.
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

    /// Handles data or new room in a conversation.
    fn hear(&mut self, number: Number, happened: &mut Vec<(PeerId, Event)>) {
        let (peers, known, has_fabric) = (&self.config.peers, &self.known, self.fabric.is_some());
        let Some(talk) = self.talks.get_mut(&number) else { return };
        let heard = talk.step(&mut |key, is_first| {
            let peer = peers.of_key(&key)?;
            let known = &known[peer];
            // This agent answers a knock with a connection of its own, so it sends no terms here.
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
        // The owner gets this description only after both agents have agreed.
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
            // This agent's terms have become untrue meanwhile, and the other agent may rely on them.
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
            // Drop the frames before: their channel no longer exists.
            return self.end(number, &Over::Goodbye, Vec::new(), happened);
        }
        if self.known[peer].current == Some(number) {
            happened.extend(fabric.map(|what| (peer, Event::Fabric(what))));
            happened.extend(frames.into_iter().map(|frame| (peer, Event::Frame(frame))));
            happened.push((peer, Event::Room));
        }
    }

    /// Handles a knock: the peer, which does not connect itself, runs and has no conversation.
    fn knocked(&mut self, peer: PeerId, knock: Number, happened: &mut Vec<(PeerId, Event)>) {
        let known = &mut self.known[peer];
        if known.current.is_some() && knock < known.since {
            // The peer began this knock before the current conversation was agreed on. After an outage, both agents
            // connect at once. The peer has the conversation that it wants, or soon will. If the peer has died since,
            // the current conversation ends like any other.
            return;
        }
        known.retry = Some(Retry::at_once());
        if let Some(current) = known.current.take() {
            happened.push((peer, Event::Lost));
            return self.forget(current);
        }
        // A try in progress may have begun before the peer started.
        if let Some(trying) = known.trying.take() {
            self.forget(trying);
        }
    }

    /// Handles the end of a conversation.
    fn end(
        &mut self,
        number: Number,
        over: &Over,
        frames: Vec<Vec<u8>>,
        happened: &mut Vec<(PeerId, Event)>,
    ) {
        // An agent that does not know this agent's key closes the connection without an answer.
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
                // The knock has succeeded.
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

    /// Reports why there is no conversation with a peer, once for each reason.
    fn tell(&mut self, peer: PeerId, over: &Over) {
        let (text, known) = (over.to_string(), &mut self.known[peer]);
        if text != known.told {
            let address = self.config.peers.all()[peer].address;
            eprintln!("sovia-agent: cannot talk to the agent at {address}: {text}");
            known.told = text;
        }
    }

    /// Reports why an unknown agent was refused. Reports nothing about connections of other programs.
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
    /// Returns when the next try is due. Returns `None` during a try or a conversation.
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
