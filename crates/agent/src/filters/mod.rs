//! The agent of `sovia run --respect-filters` (`sovia agent --filters`): watches packet filters that accelerated
//! connections bypass.
//!
//! A program that respects filters connects to the agent and sends nothing. The agent reports which packets between
//! programs of its network namespace may be stopped ([`Flows`](sovia_proto::filters::Flows)). It reports again after
//! each change. The program keeps connections on TCP if their packets may be stopped, and the kernel decides. Without
//! the agent, the program keeps all connections on TCP.
//!
//! - `ruleset`: nftables' rules. `judge`: the packets that they may stop.
//! - `look`: reads the filters of a network namespace.
//! - `place`: watches one network namespace in a thread of its own, and reports to the programs there.
//! - This module: accepts programs.
//!
//! The kernel reports changes of nftables and traffic control by netlink. Once a second, the agent checks what no
//! event reports: tables of iptables-legacy, and BPF programs of `lo` and of the programs' control groups.

mod judge;
mod look;
mod place;
mod ruleset;

pub use judge::Judgement;
pub use look::look;
pub use sovia_proto::filters::PATH;

use crate::vouch;
use place::{Place, Program};
use sovia_sys::arrivals::Arrivals;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, Fd, clock, netns, poll};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of programs accepted in one turn.
const TURN: usize = 16;
/// Maximum number of programs of one user. Others stay on TCP.
const OF_ONE_USER: usize = 1024;
/// Maximum number of network namespaces.
const PLACES_MAX: usize = 512;
/// Looks may use at most 1/`SHARE` of the time.
const SHARE: u64 = 8;
/// Nanoseconds by which a look may begin before earlier looks are paid off.
const BURST_NS: u64 = 1_000_000_000;

/// Reason why the agent cannot watch filters.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Programs cannot find the agent.
    #[error(transparent)]
    Listen(#[from] vouch::Error),
    /// The kernel refuses a call that watching needs.
    #[error("cannot watch packet filters: {}; CAP_NET_ADMIN and CAP_SYS_ADMIN are needed", sovia_sys::described(*.0))]
    Kernel(Errno),
}

/// Device and inode of a network namespace.
type Namespace = (u64, u64);

/// Time that looks have used. Time without looks pays it off.
#[derive(Debug, Default)]
struct Budget {
    /// Time at which all earlier looks are paid off, in nanoseconds of the monotonic clock.
    paid_until: AtomicU64,
}

impl Budget {
    /// Returns the time from which another look is allowed.
    fn allows_from(&self) -> u64 {
        self.paid_until.load(Ordering::Relaxed).saturating_sub(BURST_NS)
    }

    /// Adds a look that began at `begun` and has ended now.
    fn spend(&self, begun: u64) {
        let cost = SHARE * clock::now_ns().saturating_sub(begun);
        let add = |until: u64| Some(until.max(begun) + cost);
        let _ = self.paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

/// Number of programs of each user.
#[derive(Debug, Default)]
struct Users(Mutex<HashMap<u32, usize>>);

/// Counts a program of a user for as long as the value lives.
#[derive(Debug)]
struct Seat {
    users: Arc<Users>,
    user: u32,
}

impl Users {
    fn seat(self: &Arc<Users>, user: u32) -> Option<Seat> {
        let mut users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = users.entry(user).or_default();
        (*count < OF_ONE_USER).then(|| {
            *count += 1;
            Seat { users: Arc::clone(self), user }
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut users = self.users.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// Accepts programs, and passes each to the thread of its network namespace.
#[derive(Debug)]
pub struct FilterAgent {
    listener: Listener,
    arrivals: Arrivals,
    epoll: Fd,
    places: BTreeMap<Namespace, Place>,
    users: Arc<Users>,
    /// Budget for the first looks in network namespaces.
    first_looks: Arc<Budget>,
}

impl FilterAgent {
    /// Listens at `path`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(path: &Path) -> Result<FilterAgent, Error> {
        // Test the privileges now: without them, the agent could not see any program's filters.
        netns::current().and_then(|home| netns::enter(&home)).map_err(Error::Kernel)?;
        drop(place::watch().map_err(Error::Kernel)?);
        let listener = Listener::of(vouch::listen(path)?);
        let epoll = Fd::make(poll::epoll_create).map_err(Error::Kernel)?;
        let edges = (libc::EPOLLIN | libc::EPOLLET) as u32;
        poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, listener.raw(), edges, 0)
            .map_err(Error::Kernel)?;
        let (arrivals, places, users, first_looks) = Default::default();
        Ok(FilterAgent { listener, arrivals, epoll, places, users, first_looks })
    }

    /// Serves until the kernel refuses a call.
    pub fn serve(mut self) -> Error {
        loop {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1];
            let pause = self.arrivals.pause();
            match poll::epoll_wait(self.epoll.raw(), &mut events, pause, None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Error::Kernel(error),
            }
            let come = self.arrivals.take(TURN, || self.listener.accept());
            for packets in come {
                // A program that is refused may connect again.
                let _ = self.take_in(packets);
            }
        }
    }

    fn take_in(&mut self, packets: Packets) -> sovia_sys::Result<()> {
        let (pid, user) = packets.peer()?;
        let seat = self.users.seat(user).ok_or(Errno::EAGAIN)?;
        let namespace = netns::of_socket(packets.raw())?;
        let id = netns::id(&namespace)?;
        let mut program = Program::new(packets, pid, seat);
        if let Some(place) = self.places.get(&id) {
            match place.admit(program) {
                Ok(()) => return Ok(()),
                // The place's thread has ended.
                Err(refused) => program = refused,
            }
        }
        self.places.retain(|_, place| !place.is_over());
        // Programs in many new network namespaces must not delay other programs.
        let is_late = self.first_looks.allows_from() > clock::now_ns();
        if is_late || self.places.len() >= PLACES_MAX {
            return Err(Errno::EAGAIN);
        }
        let place = Place::start(namespace, Arc::clone(&self.first_looks))?;
        // If the thread could not begin, it has already dropped its programs.
        let _ = place.admit(program);
        self.places.insert(id, place);
        Ok(())
    }
}
