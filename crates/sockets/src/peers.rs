//! Descriptors that report deaths: this process's death to its peers, and a peer's death to this process.
//!
//! A kernel socket reports by FIN when the last process that holds it has gone. But this process may not see the
//! FIN if it does not read the bytes before the FIN. Or the FIN came earlier, when the peer closed one half. So
//! each process gives its peers two descriptors besides its doorbells:
//!
//! - A pidfd of itself, which becomes readable when the process has ended.
//! - The reading end of a pipe without any data. Forked children inherit the pipe's writing end, and so do programs
//!   that join the family ([`crate::exec`]). Any other exec closes it. So the pipe hangs up when no process is left
//!   that could use the segment. A process of another user gets one end of a pair of sockets instead
//!   ([`crate::pair::notification_sockets`]). The reason is that a pipe's holder could block every process that
//!   closes the pipe.
//!
//! The progress thread watches both descriptors of each peer.

use crate::message::Process;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicU32, Ordering};
use smallvec::SmallVec;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, clock, poll};

/// Number of descriptors that report a process's death.
pub(crate) const NOTICES: usize = 2;

per_engine! {
    static OWN: RobustBox<OwnNotices, { rank::NOTICES }> = RobustBox::new(OwnNotices::new());
    static PEERS: RobustBox<Vec<Peer>, { rank::PEERS }> = RobustBox::new(Vec::new());
    /// Number of calls that have added a peer.
    static ADDED: AtomicU32 = AtomicU32::new(0);
}

/// The descriptors that report this process's death.
struct OwnNotices {
    /// The pidfd and the pipe's reading end of this process, once it has made them.
    notices: Option<[Fd; NOTICES]>,
    /// Writing ends of pipes, which stay open until the process ends or leaves its peers. These are the end of this
    /// process's pipe, and the ends that its ancestors have made.
    pipe_ends: Vec<Fd>,
}

impl OwnNotices {
    const fn new() -> OwnNotices {
        OwnNotices { notices: None, pipe_ends: Vec::new() }
    }
}

/// State of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerState {
    /// The process lives, as far as is known.
    Alive,
    /// The process has died. Its forked children may hold its connections.
    ProcessDied,
    /// All processes with the segment have died. The value is the time of the check that found this (nanoseconds of
    /// the monotonic clock).
    AllDied(u64),
}

struct Peer {
    process: Process,
    /// Number of the peer, counted over this process and its ancestors.
    number: u32,
    notices: [Fd; NOTICES],
    /// State at the last check.
    state: PeerState,
    /// Number of the progress thread's epoll instance that has `notices`; 0: none.
    watched_by: u32,
}

impl Peer {
    fn look(&mut self, now: u64) {
        let [process, all] = &self.notices;
        if matches!(self.state, PeerState::AllDied(_)) {
            return;
        }
        if poll::probe(all.raw(), 0) & libc::POLLHUP != 0 {
            self.state = PeerState::AllDied(now);
        } else if poll::probe(process.raw(), libc::POLLIN) & libc::POLLIN != 0 {
            self.state = PeerState::ProcessDied;
        }
    }
}

/// Returns the descriptors that report this process's death, to give to a peer.
pub(crate) fn notices() -> Option<[i32; NOTICES]> {
    OWN.with(|own| {
        if own.notices.is_none() {
            let (notices, writer) = make()?;
            own.notices = Some(notices);
            own.pipe_ends.push(writer);
        }
        own.notices.as_ref().map(|fds| fds.each_ref().map(Fd::raw))
    })
}

/// Calls `each` with the writing ends of pipes, which show the peers that this process lives.
pub(crate) fn each_pipe_end(mut each: impl FnMut(i32)) {
    OWN.with(|own| own.pipe_ends.iter().for_each(|end| each(end.raw())));
}

/// Takes over a writing end of a pipe from the process that has executed this program.
pub(crate) fn take_pipe_end(end: Fd) {
    OWN.with(|own| own.pipe_ends.push(end));
}

/// Makes this process's notices, and the writing end of its pipe.
fn make() -> Option<([Fd; NOTICES], Fd)> {
    let mut writer = None;
    let pipe = Fd::make(|| {
        let [read, write] = call::pipe()?;
        writer = Some(write);
        Ok(read)
    });
    let writer = writer.map(Fd::adopt)?;
    let notices = [Fd::make(call::pidfd_of_self).ok()?, pipe.ok()?];
    let are_high = notices.iter().chain([&writer]).all(Fd::is_high);
    are_high.then_some((notices, writer))
}

/// Returns true if `fd` is a pidfd. A pidfd can be watched, and closed without waiting.
pub(crate) fn is_process(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    let target = &target[..n];
    target.starts_with(b"anon_inode:[pidfd]") || target.starts_with(b"pidfd:[")
}

/// Returns true if `fd` is the reading end of a pipe.
pub(crate) fn is_end_of_pipe(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    let flags = || call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_RDWR as usize) as i32;
    target[..n].starts_with(b"pipe:[") && flags() & libc::O_ACCMODE == libc::O_RDONLY
}

/// Stores the descriptors `fds`, which report the death of the peer `process`. Returns false if `fds` are
/// incomplete or have low numbers.
pub(crate) fn keep(process: Process, fds: Vec<Fd>) -> bool {
    let Ok(notices) = <[Fd; NOTICES]>::try_from(fds) else { return false };
    let are_high = notices.iter().all(Fd::is_high);
    if are_high {
        take(process, notices);
    }
    are_high
}

/// Like [`keep`], for descriptors from the process that has executed this program.
pub(crate) fn take(process: Process, notices: [Fd; NOTICES]) {
    PEERS.with(|peers| {
        let number = ADDED.fetch_add(1, Ordering::Release);
        if !peers.iter().any(|peer| peer.process == process) {
            peers.push(Peer { process, number, notices, state: PeerState::Alive, watched_by: 0 });
        }
    });
}

/// Returns the descriptors that report the death of the peer `process`.
pub(crate) fn notices_of(process: Process) -> Option<[i32; NOTICES]> {
    PEERS.with(|peers| {
        let peer = peers.iter().find(|peer| peer.process == process)?;
        Some(peer.notices.each_ref().map(Fd::raw))
    })
}

/// Returns a count that changes with each added peer. After a change, call [`watch`] again.
pub(crate) fn added() -> u32 {
    ADDED.load(Ordering::Acquire)
}

/// Makes the epoll instance `epoll` report the death of each peer. `token` returns the epoll token for the peer with a
/// number. `instance` is the number of this instance, which no other instance of this process or its ancestors has.
pub(crate) fn watch(epoll: i32, instance: u32, token: impl Fn(u32) -> u64) {
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    PEERS.with(|peers| {
        for peer in peers.iter_mut().filter(|peer| peer.watched_by != instance) {
            peer.watched_by = instance;
            let token = token(peer.number);
            for notice in &peer.notices {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, notice.raw(), events, token);
            }
        }
    });
}

/// Checks which peers have died.
pub(crate) fn look() {
    let now = clock::now_ns();
    PEERS.with(|peers| peers.iter_mut().for_each(|peer| peer.look(now)));
}

/// Checks if the peers with these numbers have died.
pub(crate) fn look_at(numbers: &[u32]) {
    let now = clock::now_ns();
    PEERS.with(|peers| {
        peers
            .iter_mut()
            .filter(|peer| numbers.contains(&peer.number))
            .for_each(|peer| peer.look(now));
    });
}

/// Removes each peer whose processes have all died, unless the peer is `in_use`.
pub(crate) fn forget_dead(in_use: impl Fn(Process) -> bool) {
    PEERS.with(|peers| {
        peers.retain(|peer| !matches!(peer.state, PeerState::AllDied(_)) || in_use(peer.process));
    });
}

/// Peers that have died, with their states at the last check.
pub(crate) type DeadPeers = SmallVec<[(Process, PeerState); 4]>;

/// Returns the peers that the last check has found dead.
pub(crate) fn dead() -> DeadPeers {
    PEERS.with(|peers| {
        let dead = peers.iter().filter(|peer| peer.state != PeerState::Alive);
        dead.map(|peer| (peer.process, peer.state)).collect()
    })
}

/// Returns the state of the peer `process` at the last check.
pub(crate) fn state(process: Process) -> PeerState {
    PEERS.with(|peers| {
        let peer = peers.iter().find(|peer| peer.process == process);
        peer.map_or(PeerState::Alive, |peer| peer.state)
    })
}

/// Checks the peer `process` and returns its state. `None` if the peer is unknown.
pub(crate) fn check(process: Process) -> Option<PeerState> {
    PEERS.with(|peers| {
        let peer = peers.iter_mut().find(|peer| peer.process == process)?;
        peer.look(clock::now_ns());
        Some(peer.state)
    })
}

/// Returns true if the last check found a dead peer.
pub(crate) fn any_has_died() -> bool {
    PEERS.with(|peers| peers.iter().any(|peer| peer.state != PeerState::Alive))
}

/// Leaves all peers. Closes the peers' descriptors, and this process's own descriptors, which showed the peers that
/// it lives.
pub(crate) fn leave_all() {
    drop(OWN.with(|own| core::mem::replace(own, OwnNotices::new())));
    drop(PEERS.with(core::mem::take));
}

/// Takes this module's locks before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    OWN.hold();
    PEERS.hold();
}

/// Releases this module's locks after a fork, in parent and child.
pub(crate) fn release() {
    PEERS.release();
    OWN.release();
}

/// Makes a forked child create its own descriptors when it needs them. The writing ends of its ancestors' pipes stay
/// open in the child. For pairs from before the fork, these open ends show the peers that the child lives.
pub(crate) fn forked() {
    drop(OWN.with(|own| own.notices.take()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_instance_watches_peers_that_an_earlier_one_has_watched() {
        let [read, write] = call::pipe().unwrap();
        let notices = [call::pidfd_of_self().unwrap(), read].map(Fd::adopt);
        keep(Process { pid: 1, nonce: 1 }, notices.into());
        let instances = [1, 2].map(|number| (Fd::adopt(poll::epoll_create().unwrap()), number));
        instances.iter().for_each(|(instance, number)| watch(instance.raw(), *number, |_| 7));
        drop(Fd::adopt(write));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        for (instance, _) in &instances {
            assert_eq!(poll::epoll_wait(instance.raw(), &mut events, Some(0), None), Ok(1));
            assert_eq!({ events[0].u64 }, 7);
        }
    }
}
