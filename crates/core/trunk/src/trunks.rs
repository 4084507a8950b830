//! All trunks of an agent, with one NIC and one completion queue.

use crate::message::Message;
use crate::trunk::{ENTRIES, LONGEST, MakeError, State, Trunk};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::Builder;
use via::cq::Watch;
use via::{CompletionQueue, NetAddress, Nic, WorkQueueKind};

/// Number of the agent at the other end. The owner of the trunks chooses the number.
pub type PeerId = usize;

/// Maximum number of completions that one call of [`Trunks::look`] takes.
const TURN: usize = 256;

/// Change in a trunk's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Both ends are connected, so frames can be sent.
    Up,
    /// The trunk has ended. The text gives the reason, for users.
    Down(String),
    /// The other end has answered a request of [`Trunks::ask`].
    Answered,
}

/// Result of [`Trunks::transmit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmitted {
    /// True if a frame was sent.
    pub any: bool,
    /// True if more messages can be sent.
    pub has_room: bool,
}

/// All trunks of an agent: at most one for each peer.
pub struct Trunks<N: Nic> {
    // Declared before the queue and the NIC, to which the trunks' VIs are attached. So the trunks are dropped first.
    trunks: BTreeMap<PeerId, (u64, Trunk<N>)>,
    /// Peer of each VI, by the VI's number. VIs of ended trunks have no entry.
    peers: BTreeMap<u64, PeerId>,
    cq: N::Cq,
    nic: Arc<N>,
    endings: Endings,
    news: VecDeque<(PeerId, News)>,
    /// Number of the newest VI.
    last: u64,
    buffer: Vec<u8>,
    /// Set while a signal is registered with the completion queue.
    is_armed: Arc<AtomicBool>,
}

/// Destroys a trunk in a thread of its own.
///
/// The NIC waits until no transfer uses the trunk's memory. The other host can delay the NIC as long as it likes. If
/// no thread can be started, the trunk is destroyed in the calling thread.
fn destroy<N: Nic + 'static>(trunk: Trunk<N>, ending: Ending) {
    let end = move || {
        drop(trunk);
        drop(ending);
    };
    let _ = Builder::new().name("trunk-end".into()).spawn(end);
}

/// Maximum number of trunks to one peer that end at the same time. Each uses a thread and memory, and the peer's NIC
/// decides when it ends.
const ENDING: usize = 4;

/// Held while a trunk to a peer is ending. Its reference count gives the number of such trunks.
type Ending = Arc<()>;

/// Trunks that are ending, by peer.
#[derive(Debug, Default)]
struct Endings(BTreeMap<PeerId, Ending>);

impl Endings {
    /// Counts a trunk to `peer` as ending until the caller drops the result.
    fn begin(&mut self, peer: PeerId) -> Ending {
        self.0.entry(peer).or_default().clone()
    }

    /// Returns true if so many trunks to `peer` are ending that the agent must not make another one.
    fn are_too_many(&self, peer: PeerId) -> bool {
        self.0.get(&peer).is_some_and(|ending| Arc::strong_count(ending) > ENDING)
    }
}

impl<N: Nic> core::fmt::Debug for Trunks<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Trunks({} of them)", self.trunks.len())
    }
}

impl<N: Nic + 'static> Trunks<N> {
    /// Creates an empty set of trunks.
    ///
    /// # Errors
    /// The NIC cannot create a completion queue.
    pub fn new(nic: Arc<N>) -> Result<Trunks<N>, MakeError> {
        Ok(Trunks {
            trunks: BTreeMap::new(),
            peers: BTreeMap::new(),
            cq: nic.create_cq(ENTRIES, 0)?,
            nic,
            endings: Endings::default(),
            news: VecDeque::new(),
            last: 0,
            buffer: vec![0; LONGEST],
            is_armed: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Returns the NIC's address, to which other agents connect.
    pub fn host(&self) -> &[u8] {
        &self.nic.attributes().local_address
    }

    /// Begins a trunk to a peer. Ends an earlier trunk to the same peer.
    ///
    /// The trunk comes up when the agent whose NIC has the address `host` makes one with the same discriminator.
    ///
    /// # Errors
    /// [`MakeError`]. After [`MakeError::Ending`], a later try may succeed.
    pub fn connect(
        &mut self,
        peer: PeerId,
        host: &[u8],
        discriminator: &[u8],
    ) -> Result<(), MakeError> {
        self.end(peer);
        if self.endings.are_too_many(peer) {
            return Err(MakeError::Ending);
        }
        let entries = ENTRIES.saturating_mul(self.trunks.len() as u32 + 1);
        if self.cq.capacity() < entries {
            self.cq.resize(entries)?;
        }
        self.last += 1;
        let local = NetAddress::new(self.host(), discriminator);
        let remote = NetAddress::new(host, discriminator);
        let trunk = Trunk::connect(&self.nic, &self.cq, self.last, &local, &remote)?;
        self.trunks.insert(peer, (self.last, trunk));
        self.peers.insert(self.last, peer);
        Ok(())
    }

    /// Ends the trunk to a peer, if there is one.
    pub fn end(&mut self, peer: PeerId) {
        if let Some((name, trunk)) = self.trunks.remove(&peer) {
            self.peers.remove(&name);
            self.news.retain(|(of, _)| *of != peer);
            destroy(trunk, self.endings.begin(peer));
        }
    }

    /// Returns true while a trunk is being connected. The completion queue does not report the connection, so the
    /// owner must call [`Trunks::look`].
    pub fn is_connecting(&self) -> bool {
        self.trunks.values().any(|(_, trunk)| trunk.state == State::Connecting)
    }

    /// Takes completions and passes received frames to `take`: the peer, a run's bytes, and the length of a frame.
    ///
    /// All frames of a run have this length, except the last one, which may be shorter. A call takes a bounded number
    /// of completions. Returns false if there was nothing to do.
    pub fn look(&mut self, take: &mut dyn FnMut(PeerId, &[u8], usize)) -> bool {
        let mut busy = self.look_for_connections();
        for _ in 0..TURN {
            let Some(entry) = self.cq.done() else { break };
            busy = true;
            let Some(&peer) = self.peers.get(&entry.context) else { continue };
            let Some((_, trunk)) = self.trunks.get_mut(&peer) else { continue };
            let came = match entry.queue {
                WorkQueueKind::Send => {
                    trunk.sent();
                    None
                }
                WorkQueueKind::Recv => trunk.received(&mut self.buffer),
            };
            if let Some(len) = came {
                match Message::parse(&self.buffer[..len]) {
                    Ok(message) => {
                        message.runs().for_each(|(run, frame)| take(peer, run, frame));
                        trunk.consumed(&message);
                    }
                    Err(_) => trunk.state = State::Down,
                }
            }
            if trunk.has_answered() {
                self.news.push_back((peer, News::Answered));
            }
        }
        for (_, trunk) in self.trunks.values_mut() {
            trunk.tell(&mut self.buffer);
        }
        self.look_for_ends();
        busy
    }

    fn look_for_connections(&mut self) -> bool {
        let up = |(&peer, (_, trunk)): (&PeerId, &mut (u64, Trunk<N>))| {
            trunk.has_connected().then_some((peer, News::Up))
        };
        let before = self.news.len();
        self.news.extend(self.trunks.iter_mut().filter_map(up));
        self.news.len() > before
    }

    fn look_for_ends(&mut self) {
        let down = |(&peer, (_, trunk)): (&PeerId, &mut (u64, Trunk<N>))| {
            (trunk.state == State::Down).then(|| (peer, trunk.why()))
        };
        let down: Vec<(PeerId, String)> = self.trunks.iter_mut().filter_map(down).collect();
        for (peer, why) in down {
            self.end(peer);
            self.news.push_back((peer, News::Down(why)));
        }
    }

    /// Returns the oldest event that has not been returned yet.
    pub fn news(&mut self) -> Option<(PeerId, News)> {
        self.news.pop_front()
    }

    /// Asks the peer's agent for an answer. [`News::Answered`] reports the answer. The answer also confirms that all
    /// earlier messages have arrived.
    pub fn ask(&mut self, peer: PeerId) {
        if let Some((_, trunk)) = self.trunks.get_mut(&peer) {
            trunk.ask();
            trunk.tell(&mut self.buffer);
        }
    }

    /// Sends frames to a peer until `next` returns `None` or no more messages can be sent.
    ///
    /// `next` writes a frame into the given buffer and returns its length. A frame has at most `longest` bytes, and
    /// `longest` is at most [`FRAME_MAX`](crate::FRAME_MAX). Frames of length 0 are not sent.
    pub fn transmit(
        &mut self,
        peer: PeerId,
        longest: usize,
        next: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
    ) -> Transmitted {
        let Some((_, trunk)) = self.trunks.get_mut(&peer) else {
            return Transmitted { any: false, has_room: false };
        };
        let (any, has_room) = trunk.transmit(longest, &mut self.buffer, next);
        Transmitted { any, has_room }
    }

    /// Like [`CompletionQueue::watch`], for all trunks.
    pub fn watch(&self) -> Option<Watch> {
        self.cq.watch()
    }

    /// Like [`CompletionQueue::awake`], for all trunks.
    pub fn awake(&self, ready: [bool; 3]) {
        self.cq.awake(ready);
    }

    /// Registers `wake`: it runs once, when a completion arrives, or now if one is waiting.
    ///
    /// The call does nothing while an earlier `wake` is still registered. `wake` may wake a thread, but must not
    /// block.
    pub fn wake_by(&self, wake: impl FnOnce() + Send + 'static) {
        if !self.is_armed.swap(true, Ordering::AcqRel) {
            let is_armed = self.is_armed.clone();
            self.cq.signal(Box::new(move || {
                is_armed.store(false, Ordering::Release);
                wake();
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trunks_that_do_not_end_are_bounded_for_each_peer() {
        let mut endings = Endings::default();
        let mut of_one: Vec<_> = (0..ENDING - 1).map(|_| endings.begin(1)).collect();
        assert!(!endings.are_too_many(1));
        of_one.push(endings.begin(1));
        assert!(endings.are_too_many(1) && !endings.are_too_many(2));
        of_one.pop();
        assert!(!endings.are_too_many(1), "one has ended");
    }
}
