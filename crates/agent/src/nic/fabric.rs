//! The NIC that carries frames to agents with a NIC of the same kind: an RDMA NIC, or a NIC of a libfabric provider.
//!
//! Two agents tell each other on their TCP connection which NIC each has. Then they connect a VI between the two
//! NICs, a *trunk* ([`sovia_trunk`]). Frames use the trunk while it is up, and the port otherwise. If a trunk breaks,
//! the channel sends the lost frames again. The agents then connect the trunk again, with a delay that doubles after
//! each try.

use super::route::{Carrier, Route};
use super::{FABRIC_WATCHED, Nic};
use crate::hosts::{Channel, PeerId, Retry};
use crate::port::Sent;
use crate::{Error, Fabric as Wanted};
use core::net::IpAddr;
use sovia_link::Time;
use sovia_nic::AnyNic;
use sovia_sys::{Fd, call, clock, poll};
use sovia_trunk::{News, Trunks};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Interval at which a VI that is being connected is polled, in nanoseconds. No event reports the connection.
const LOOK_NS: u64 = 10_000_000;
/// Time without an answer after which a trunk is connected again, in nanoseconds. Meanwhile, frames use the port. The
/// NIC may have lost something for which the VI waits. A reconnection without need only costs some speed.
const SILENCE_NS: u64 = 2_000_000_000;
/// Prefix of the trunks' discriminators.
const PURPOSE: &[u8] = b"sovi";

/// The NIC, and its trunks.
#[derive(Debug)]
pub(super) struct Fabric {
    trunks: Trunks<AnyNic>,
    /// Name that the owner has given.
    name: String,
    /// Eventfd written when a completion arrives while the agent sleeps. Used if the NIC has no descriptors to watch.
    bell: Arc<Fd>,
    /// Descriptors of the NIC in the epoll set; -1 for none.
    watched: [RawFd; 3],
    /// Set while the agent sleeps and watches the NIC's descriptors.
    is_watching: bool,
    /// Set after the kernel has refused to watch the NIC's descriptors.
    is_refused: bool,
    /// State for each agent with a NIC of the same kind, by peer.
    ways: Vec<Option<Way>>,
}

/// State of the trunk to an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// No trunk, until the next try is due.
    #[default]
    Down,
    Connecting,
    Up,
}

/// An agent with a NIC of the same kind, and the trunk to this agent.
#[derive(Debug)]
struct Way {
    /// Address of the other agent's NIC, and the discriminator under which both agents connect.
    host: Vec<u8>,
    discriminator: Vec<u8>,
    stage: Stage,
    retry: Retry,
    /// Time when this NIC asked for an answer on the trunk, in nanoseconds. Set until the answer arrives.
    asked_at: Option<u64>,
    /// Last reported reason why there is no trunk.
    told: String,
}

/// Returns the provider in a NIC's name.
fn provider_of(name: &str) -> &str {
    name.split_once(':').map_or("", |(provider, _)| provider)
}

/// Completes a name without an address with the agent's own address.
fn at(name: &str, own: IpAddr) -> String {
    match name {
        "verbs" => format!("verbs:{own}"),
        "ofi:shm" => name.to_owned(),
        name if name.starts_with("ofi:") && !name.contains('@') => format!("{name}@{own}"),
        name => name.to_owned(),
    }
}

/// Encodes the description of a NIC for other agents: the provider's name, a zero byte, the NIC's address.
fn introduction(name: &str, host: &[u8]) -> Vec<u8> {
    [provider_of(name).as_bytes(), &[0], host].concat()
}

/// Returns the NIC's address from another agent's description, if `name` has the same provider.
fn host_in<'a>(said: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = said.strip_prefix(provider_of(name).as_bytes())?;
    rest.strip_prefix(&[0]).filter(|host| !host.is_empty())
}

/// Returns the discriminator for the trunk of a channel. No other station knows the channel's epochs.
fn discriminator(channel: Channel) -> Vec<u8> {
    let [own, other] = channel.epochs;
    let words = [channel.number, own.min(other), own.max(other)].map(u32::to_be_bytes);
    [PURPOSE, &words.concat()].concat()
}

/// Folder in which the kernel lists RDMA NICs.
const RDMA: &str = "/sys/class/infiniband";

impl Fabric {
    /// Opens the NIC that the owner wants, for an agent that listens at `own`. Returns `None` if the owner wants
    /// none, or if there is none to choose.
    pub(super) fn wanted(
        wanted: &Wanted,
        own: IpAddr,
        peers: usize,
    ) -> Result<Option<Fabric>, Error> {
        let has_rdma = || std::fs::read_dir(RDMA).is_ok_and(|mut all| all.next().is_some());
        match wanted {
            Wanted::Nic(name) => Fabric::open(&at(name, own), peers).map(Some),
            Wanted::Auto if has_rdma() => {
                let fabric = Fabric::open(&at("verbs", own), peers);
                let told =
                    |error: &Error| eprintln!("sovia-agent: cannot send frames by RDMA: {error}");
                Ok(fabric.inspect_err(told).ok())
            }
            Wanted::Auto | Wanted::None => Ok(None),
        }
    }

    /// Opens the NIC of this name.
    fn open(name: &str, peers: usize) -> Result<Fabric, Error> {
        let failed = |error: String| Error::Fabric(name.to_owned(), error);
        let nic = AnyNic::open_at(name).map_err(|error| failed(error.to_string()))?;
        let trunks = Trunks::new(Arc::new(nic)).map_err(|error| failed(error.to_string()))?;
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        let bell = Fd::make(|| call::eventfd(flags)).map_err(Error::Kernel)?;
        let ways = (0..peers).map(|_| None).collect();
        let (name, bell) = (name.to_owned(), Arc::new(bell));
        Ok(Fabric {
            trunks,
            name,
            bell,
            watched: [-1; 3],
            is_watching: false,
            is_refused: false,
            ways,
        })
    }

    /// Returns the description of this NIC for other agents.
    pub(super) fn introduction(&self) -> Vec<u8> {
        introduction(&self.name, self.trunks.host())
    }

    /// Returns the eventfd to watch, edge-triggered: it reports completions since [`Fabric::arm`].
    pub(super) fn raw(&self) -> RawFd {
        self.bell.raw()
    }

    /// Requests a write to the eventfd when a completion arrives.
    fn arm(&self) {
        let bell = self.bell.clone();
        self.trunks.wake_by(move || {
            // Nothing reads the counter. A write to a full counter would report nothing, but that takes 2^64 writes.
            let _ = call::write(bell.raw(), &1_u64.to_ne_bytes());
        });
    }

    /// Adds the NIC's descriptors to the epoll set. Returns false if the kernel refuses.
    fn watch(&mut self, epoll: &Fd, descriptors: [RawFd; 3]) -> bool {
        let events = libc::EPOLLIN as u32;
        for (n, fd) in descriptors.into_iter().enumerate().filter(|(_, fd)| *fd >= 0) {
            let added =
                poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, fd, events, FABRIC_WATCHED[n]);
            if added.is_err() {
                return false;
            }
            self.watched[n] = fd;
        }
        true
    }

    /// Removes the NIC's descriptors from the epoll set.
    fn watch_no_more(&mut self, epoll: &Fd) {
        for fd in self.watched.iter_mut().filter(|fd| **fd >= 0) {
            // This cannot fail for a descriptor in the set.
            let _ = poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_DEL, *fd, 0, 0);
            *fd = -1;
        }
    }

    /// Returns when the next timer is due, in nanoseconds of the monotonic clock.
    pub(super) fn deadline(&self, now: u64) -> Option<u64> {
        let look = self.trunks.is_connecting().then_some(now + LOOK_NS);
        let is_down = |way: &&Way| way.stage == Stage::Down;
        let due = self.ways.iter().flatten().filter(is_down).map(|way| way.retry.due());
        let asked = self.ways.iter().flatten().filter_map(|way| way.asked_at);
        due.chain(look).chain(asked.map(|at| at + SILENCE_NS)).min()
    }

    /// Returns true if frames to `peer` can use a trunk.
    fn is_up(&self, peer: PeerId) -> bool {
        self.ways[peer].as_ref().is_some_and(|way| way.stage == Stage::Up)
    }

    /// Drops the trunk to a peer that has restarted or is gone.
    fn forget(&mut self, peer: PeerId) {
        self.trunks.end(peer);
        self.ways[peer] = None;
    }

    /// Stores the address of the peer's NIC, and the channel that both agents use. The next call of `connect_due`
    /// connects.
    fn met(&mut self, peer: PeerId, host: &[u8], channel: Channel) {
        let (host, discriminator) = (host.to_vec(), discriminator(channel));
        let same = |way: &Way| way.host == host && way.discriminator == discriminator;
        if self.ways[peer].as_ref().is_some_and(same) {
            // Keep the trunk: the two agents have a new TCP connection, but still the same channel.
            return;
        }
        self.trunks.end(peer);
        let (stage, retry) = (Stage::Down, Retry::at_once());
        let (asked_at, told) = (None, String::new());
        self.ways[peer] = Some(Way { host, discriminator, stage, retry, asked_at, told });
    }

    /// Starts the connections that are due. Returns the tries that failed at once.
    fn connect_due(&mut self, now: u64) -> Vec<(PeerId, News)> {
        let mut failed = Vec::new();
        for (peer, way) in self.ways.iter_mut().enumerate() {
            let Some(way) = way.as_mut().filter(|way| way.stage == Stage::Down) else { continue };
            if !way.retry.is_due(now) {
                continue;
            }
            way.retry.tried(now);
            way.stage = Stage::Connecting;
            if let Err(error) = self.trunks.connect(peer, &way.host, &way.discriminator) {
                failed.push((peer, News::Down(error.to_string())));
            }
        }
        failed
    }

    /// Ends the trunks on which no answer has arrived in time.
    fn end_silent(&mut self, now: u64) -> Vec<(PeerId, News)> {
        let is_silent = |way: &Way| way.asked_at.is_some_and(|at| at + SILENCE_NS <= now);
        let all = self.ways.iter().enumerate();
        let silent: Vec<PeerId> = all
            .filter_map(|(peer, way)| way.as_ref().is_some_and(is_silent).then_some(peer))
            .collect();
        silent.iter().for_each(|&peer| self.trunks.end(peer));
        silent.into_iter().map(|peer| (peer, News::Down("no answer".into()))).collect()
    }
}

impl Nic {
    /// Prepares for a sleep of up to `pause` nanoseconds. Returns how long the agent may sleep before the NIC needs
    /// attention.
    pub(super) fn sleeps(&mut self, pause: Option<u64>) -> Option<u64> {
        let Some(fabric) = &mut self.fabric else { return pause };
        if pause == Some(0) {
            return pause;
        }
        let watch = if fabric.is_refused { None } else { fabric.trunks.watch() };
        let Some(watch) = watch else {
            // A thread of the NIC watches the descriptors instead.
            fabric.watch_no_more(&self.epoll);
            fabric.arm();
            return pause;
        };
        fabric.is_watching = true;
        if fabric.watched != watch.descriptors {
            fabric.watch_no_more(&self.epoll);
            if !fabric.watch(&self.epoll, watch.descriptors) {
                fabric.is_refused = true;
                eprintln!(
                    "sovia-agent: cannot watch the descriptors of {} with epoll; instead, a thread of the NIC watches them",
                    fabric.name
                );
                fabric.watch_no_more(&self.epoll);
                fabric.is_watching = false;
                fabric.trunks.awake([true; 3]);
                fabric.arm();
                return pause;
            }
        }
        let left = watch.until.map(|until| until.saturating_sub(clock::now_ns()));
        pause.into_iter().chain(left).min()
    }

    /// Passes the events of the sleep to the NIC.
    pub(super) fn is_awake(&mut self, events: &[libc::epoll_event]) {
        let Some(fabric) = &mut self.fabric else { return };
        if core::mem::take(&mut fabric.is_watching) {
            let is_ready = |token| events.iter().any(|event| event.u64 == token);
            fabric.trunks.awake(FABRIC_WATCHED.map(is_ready));
        }
    }

    /// Handles a peer's message that describes its NIC.
    pub(super) fn meet_fabric(&mut self, peer: PeerId, said: &[u8]) {
        let name = self.name_of(peer);
        let (Some(fabric), Some(hosts)) = (&mut self.fabric, &self.hosts) else { return };
        match (host_in(said, &fabric.name), hosts.channel(peer)) {
            (Some(host), Some(channel)) => fabric.met(peer, host, channel),
            (None, _) => {
                let other =
                    String::from_utf8_lossy(said.split(|&it| it == 0).next().unwrap_or(said));
                let (other, own) = (other.escape_debug(), &fabric.name);
                eprintln!(
                    "sovia-agent: {name} has a NIC of {other}, which {own} cannot reach: frames go by UDP"
                );
            }
            (_, None) => {}
        }
    }

    /// Returns the best route to a peer that has a TCP connection to this agent.
    pub(super) fn best_route(&self, peer: PeerId) -> Route {
        match &self.fabric {
            Some(fabric) if fabric.is_up(peer) => Route::Trunk,
            _ => Route::Port,
        }
    }

    /// Drops the trunk to a peer that has restarted or is gone.
    pub(super) fn forget_trunk(&mut self, peer: PeerId) {
        if let Some(fabric) = &mut self.fabric {
            fabric.forget(peer);
        }
    }

    /// Receives frames from trunks and handles the trunks' events. Returns false if there was nothing to do.
    pub(super) fn receive_by_trunks(&mut self, now: Time) -> bool {
        let (Some(fabric), peers) = (&mut self.fabric, &mut self.peers) else { return false };
        let busy = fabric.trunks.look(&mut |peer, bytes, frame| {
            peers[peer].handle_frames(now, Carrier::Trunk, bytes, frame);
        });
        let mut news = fabric.end_silent(now.nanos());
        news.extend(fabric.connect_due(now.nanos()));
        news.extend(core::iter::from_fn(|| fabric.trunks.news()));
        let any = !news.is_empty();
        for (peer, news) in news {
            self.trunk_has_news(peer, news);
        }
        busy || any
    }

    fn trunk_has_news(&mut self, peer: PeerId, news: News) {
        let name = self.name_of(peer);
        let Some(fabric) = &mut self.fabric else { return };
        let own = &fabric.name;
        let Some(way) = &mut fabric.ways[peer] else { return };
        way.asked_at = None;
        let route = match news {
            News::Up => {
                (way.stage, way.told) = (Stage::Up, String::new());
                way.retry.succeeded();
                eprintln!("sovia-agent: frames to {name} go by {own}");
                Route::Trunk
            }
            News::Answered => Route::Trunk,
            News::Down(why) => {
                way.stage = Stage::Down;
                if why != way.told {
                    eprintln!("sovia-agent: frames to {name} go by UDP, and not by {own}: {why}");
                    way.told = why;
                }
                match self.peers[peer].route {
                    Route::Trunk => Route::Port,
                    route => route,
                }
            }
        };
        let state = &mut self.peers[peer];
        state.is_due |= state.route != route;
        state.route = route;
    }

    /// Requests an answer from the peer on the trunk, after frames on the trunk were not acknowledged.
    pub(super) fn ask_by_trunk(&mut self, peer: PeerId) {
        let Some(fabric) = &mut self.fabric else { return };
        fabric.trunks.ask(peer);
        if let Some(way) = &mut fabric.ways[peer] {
            way.asked_at = Some(clock::now_ns());
        }
    }

    /// Sends the channel's frames to a peer on the trunk.
    pub(super) fn transmit_by_trunk(&mut self, peer: PeerId) -> Sent {
        let nothing = Sent { any: false, has_room: true };
        let Some(fabric) = &mut self.fabric else { return nothing };
        let state = &mut self.peers[peer];
        let Some(channel) = &mut state.channel else { return nothing };
        let now = Time::from_nanos(clock::now_ns());
        let sent = fabric
            .trunks
            .transmit(peer, state.frame_max, &mut |room| channel.poll_transmit_into(now, room));
        Sent { any: sent.any, has_room: sent.has_room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_nic_has_its_address_for_one_of_the_same_provider() {
        let said = introduction("ofi:tcp;ofi_rxm@10.0.0.1:7000", &[10, 0, 0, 1]);
        assert_eq!(host_in(&said, "ofi:shm"), Some([10, 0, 0, 1].as_slice()));
        assert_eq!(host_in(&said, "verbs:rxe0"), None);
        for said in [b"".as_slice(), b"ofi", b"ofi\0", b"of\0i", b"ofix\0i"] {
            assert_eq!(host_in(said, "ofi:shm"), None, "{said:?}");
        }
    }

    #[test]
    fn nic_without_an_address_is_the_one_at_the_agents() {
        let own = [10, 0, 0, 1].into();
        for (name, meant) in [
            ("verbs", "verbs:10.0.0.1"),
            ("verbs:rxe0", "verbs:rxe0"),
            ("ofi:tcp;ofi_rxm", "ofi:tcp;ofi_rxm@10.0.0.1"),
            ("ofi:tcp;ofi_rxm@10.0.1.1:7000", "ofi:tcp;ofi_rxm@10.0.1.1:7000"),
            ("ofi:shm", "ofi:shm"),
        ] {
            assert_eq!(at(name, own), meant);
        }
    }

    #[test]
    fn both_agents_connect_under_one_discriminator_and_each_channel_has_its_own() {
        let own = Channel { number: 7, epochs: [8, 9] };
        assert_eq!(discriminator(own), discriminator(Channel { number: 7, epochs: [9, 8] }));
        assert_ne!(discriminator(own), discriminator(Channel { number: 8, epochs: [9, 8] }));
        assert_ne!(discriminator(own), discriminator(Channel { number: 7, epochs: [9, 7] }));
    }
}
