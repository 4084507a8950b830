//! An agent's trunks, with one NIC and one completion queue.

use crate::message::Message;
use crate::trunk::{ENTRIES, LONGEST, MakeError, State, Trunk};
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::Builder;
use via::cq::Watch;
use via::{CompletionQueue, NetAddress, Nic, WorkQueueKind};

/// The agent at the other end, by the owner's number.
pub type PeerId = usize;

/// Completions that are taken before something else has its turn.
const TURN: usize = 256;

/// What has become of a trunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Both ends are there: frames can be sent.
    Up,
    /// It is none any more, and why, for people.
    Down(String),
    /// The other end has answered ([`Trunks::ask`]).
    Answered,
}

/// What has become of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmitted {
    /// There were some.
    pub any: bool,
    /// There is room for more.
    pub has_room: bool,
}

/// All trunks of an agent. Each is to a peer, and a peer has one.
pub struct Trunks<N: Nic> {
    // Before the NIC and the queue that its VIs are attached to.
    trunks: BTreeMap<PeerId, (u64, Trunk<N>)>,
    /// Which peer's a VI is; those of trunks that are none any more are not there.
    peers: BTreeMap<u64, PeerId>,
    cq: N::Cq,
    nic: Arc<N>,
    endings: Endings,
    news: VecDeque<(PeerId, News)>,
    /// The last VI's name.
    last: u64,
    buffer: Vec<u8>,
    /// The completion queue signals when it has something.
    is_armed: Arc<AtomicBool>,
}

/// Destroys a trunk, in a thread of its own: the NIC waits until nothing moves in its memory any more, and what the other host has
/// to say to that may take as long as it likes. Where there can be no thread, at once.
fn destroy<N: Nic + 'static>(trunk: Trunk<N>, ending: Ending) {
    let end = move || {
        drop(trunk);
        drop(ending);
    };
    let _ = Builder::new().name("trunk-end".into()).spawn(end);
}

/// Trunks to one peer that may be ending at a time: each has a thread and memory, and ends when the peer's NIC likes.
const ENDING: usize = 4;

/// A trunk that is ending, of its peer's.
type Ending = Arc<()>;

/// How many trunks are ending, by peer.
#[derive(Debug, Default)]
struct Endings(BTreeMap<PeerId, Ending>);

impl Endings {
    /// A trunk to a peer is ending, until what this returns is dropped.
    fn begin(&mut self, peer: PeerId) -> Ending {
        self.0.entry(peer).or_default().clone()
    }

    /// Whether no other trunk to a peer should be made: it would have to end as well.
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
    /// None yet.
    ///
    /// # Errors
    /// The NIC gives no completion queue.
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

    /// The NIC's address, by which others connect to it.
    pub fn host(&self) -> &[u8] {
        &self.nic.attributes().local_address
    }

    /// Begins a trunk to a peer, in place of the one that there is. It comes up when the agent whose NIC is at `host` has done the same
    /// with the same discriminator.
    ///
    /// # Errors
    /// [`MakeError`]; [`MakeError::Ending`] may pass.
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

    /// Whether some trunk is being connected: nothing but a look tells when it is.
    pub fn is_connecting(&self) -> bool {
        self.trunks.values().any(|(_, trunk)| trunk.state == State::Connecting)
    }

    /// Hands frames that have come to `take`, with the peer and the bytes of a frame: of several frames together each has as many,
    /// but for the last one, which may have fewer. Up to a turn; false if nothing has come.
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

    /// What has happened since it was asked last.
    pub fn news(&mut self) -> Option<(PeerId, News)> {
        self.news.pop_front()
    }

    /// Has the other end of a trunk answer: [`News::Answered`] tells that it has, and with that everything that was sent before.
    pub fn ask(&mut self, peer: PeerId) {
        if let Some((_, trunk)) = self.trunks.get_mut(&peer) {
            trunk.ask();
            trunk.tell(&mut self.buffer);
        }
    }

    /// Sends a peer the frames of at most `longest` bytes ([`FRAME_MAX`](crate::FRAME_MAX) at most) that `next` writes to the room that it is given, until it gives no length or
    /// there is no room. A frame of length 0 is none.
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

    /// As [`CompletionQueue::watch`], for all trunks.
    pub fn watch(&self) -> Option<Watch> {
        self.cq.watch()
    }

    /// As [`CompletionQueue::awake`].
    pub fn awake(&self, ready: [bool; 3]) {
        self.cq.awake(ready);
    }

    /// Has `wake` run, once, when something has come, or now if it has; unless an earlier call's is still to run. It may wake a thread,
    /// and must not wait.
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
