//! What tells peers of this process's death, and what tells this process of a peer's.
//!
//! The kernel's socket ends when the last process that holds it has gone, and the kernel socket tells of that;
//! but its FIN may stand behind bytes that this end does not read, or may have come before, when the
//! peer closed one half. So each process hands its peers two descriptors beside its doorbells:
//!
//! - a pidfd of itself, which becomes readable when the process has ended;
//! - the reading end of a pipe that nothing is ever written to. Its writing end is inherited by forked
//!   children and closed by exec, so it hangs up when no process is left that could use the segment. A stranger gets an end of
//!   a pair of sockets instead ([`crate::pair::bells`]): who holds a pipe can keep all that close it waiting.
//!
//! The progress thread watches both.

use crate::message::Process;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, clock, poll};

/// Descriptors that tell of a process's death.
pub(crate) const NOTICES: usize = 2;

per_engine! {
    /// This process's own: the pidfd, the pipe's reading end. The writing end stays open until the process
    /// ends or leaves its peers.
    static OWN: RobustBox<Option<[Fd; NOTICES]>, { rank::NOTICES }> = RobustBox::new(None);
    /// The number of the writing end, if this process has made it; 0 otherwise.
    static WRITER: AtomicI32 = AtomicI32::new(0);
    static PEERS: RobustBox<Vec<Peer>, { rank::PEERS }> = RobustBox::new(Vec::new());
    /// Counts the peers that have been added.
    static ADDED: AtomicU32 = AtomicU32::new(0);
}

/// How much of a peer is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process lives, as far as is known.
    Alive,
    /// The process has died. Forked children of it may hold its connections.
    ProcessDied,
    /// No process is left that has the segment, since that time (nanoseconds of the monotonic clock).
    AllDied(u64),
}

struct Peer {
    process: Process,
    notices: [Fd; NOTICES],
    /// As it was last found.
    life: Life,
    /// Set once a progress thread watches the notices.
    is_watched: bool,
}

impl Peer {
    fn look(&mut self, now: u64) {
        let [process, all] = &self.notices;
        if matches!(self.life, Life::AllDied(_)) {
            return;
        }
        if poll::probe(all.raw(), 0) & libc::POLLHUP != 0 {
            self.life = Life::AllDied(now);
        } else if poll::probe(process.raw(), libc::POLLIN) & libc::POLLIN != 0 {
            self.life = Life::ProcessDied;
        }
    }
}

/// The descriptors that tell of this process's death, to be handed to a peer.
pub(crate) fn notices() -> Option<[i32; NOTICES]> {
    OWN.with(|own| {
        if own.is_none() {
            *own = make();
        }
        own.as_ref().map(|fds| fds.each_ref().map(Fd::raw))
    })
}

fn make() -> Option<[Fd; NOTICES]> {
    let mut writer = None;
    let pipe = Fd::make(|| {
        let [read, write] = call::pipe()?;
        writer = Some(write);
        Ok(read)
    });
    let writer = writer.map(Fd::adopt)?;
    let notices = [Fd::make(call::pidfd_of_self).ok()?, pipe.ok()?];
    if !notices.iter().chain([&writer]).all(Fd::is_high) {
        return None;
    }
    WRITER.store(writer.into_raw(), Ordering::Relaxed);
    Some(notices)
}

/// Whether that is a handle on a process: it can be watched, and closed without waiting.
pub(crate) fn is_process(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    let target = &target[..n];
    target.starts_with(b"anon_inode:[pidfd]") || target.starts_with(b"pidfd:[")
}

/// Whether it is the reading end of a pipe.
pub(crate) fn is_end_of_pipe(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    let flags = || call::fcntl(fd, libc::F_GETFL, 0).unwrap_or(libc::O_RDWR as usize) as i32;
    target[..n].starts_with(b"pipe:[") && flags() & libc::O_ACCMODE == libc::O_RDONLY
}

/// Keeps the descriptors that tell of a peer's death. False if they are not all.
pub(crate) fn keep(process: Process, fds: Vec<Fd>) -> bool {
    let Ok(notices) = <[Fd; NOTICES]>::try_from(fds) else { return false };
    if !notices.iter().all(Fd::is_high) {
        return false;
    }
    PEERS.with(|peers| {
        if !peers.iter().any(|peer| peer.process == process) {
            peers.push(Peer { process, notices, life: Life::Alive, is_watched: false });
        }
    });
    ADDED.fetch_add(1, Ordering::Release);
    true
}

/// How many peers have been added: [`watch`] has something to do once this has changed.
pub(crate) fn added() -> u32 {
    ADDED.load(Ordering::Acquire)
}

/// Has an epoll instance of this process's tell of all peers' deaths by that token. One that has not been asked before is new:
/// what an earlier one watched, or the parent's, it does not watch.
pub(crate) fn watch(epoll: i32, token: u64, is_new: bool) {
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    PEERS.with(|peers| {
        for peer in peers.iter_mut().filter(|peer| is_new || !peer.is_watched) {
            peer.is_watched = true;
            for notice in &peer.notices {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, notice.raw(), events, token);
            }
        }
    });
}

/// Looks which peers have died, and forgets those of which nothing is left and that are not `in_use`.
pub(crate) fn look(now: u64, in_use: impl Fn(Process) -> bool) {
    PEERS.with(|peers| {
        peers.iter_mut().for_each(|peer| peer.look(now));
        peers.retain(|peer| !matches!(peer.life, Life::AllDied(_)) || in_use(peer.process));
    });
}

/// How much of a peer was left when it was last looked at.
pub(crate) fn life(process: Process) -> Life {
    PEERS.with(|peers| {
        let peer = peers.iter().find(|peer| peer.process == process);
        peer.map_or(Life::Alive, |peer| peer.life)
    })
}

/// How much of a peer is left at this moment; `None` if nothing tells of it.
pub(crate) fn life_now(process: Process) -> Option<Life> {
    PEERS.with(|peers| {
        let peer = peers.iter_mut().find(|peer| peer.process == process)?;
        peer.look(clock::now_ns());
        Some(peer.life)
    })
}

/// Whether any peer was found to have died when they were last looked at.
pub(crate) fn any_has_died() -> bool {
    PEERS.with(|peers| peers.iter().any(|peer| peer.life != Life::Alive))
}

/// This process leaves its peers: it has nothing of theirs any more, and nothing of its own tells them
/// that it lives.
pub(crate) fn leave_all() {
    drop(OWN.with(Option::take));
    let writer = WRITER.swap(0, Ordering::Relaxed);
    if writer != 0 {
        drop(Fd::keep(writer));
    }
    drop(PEERS.with(core::mem::take));
}

/// Around fork: see [`crate::fork`].
pub(crate) fn hold() {
    OWN.hold();
    PEERS.hold();
}

/// After fork, in both.
pub(crate) fn release() {
    PEERS.release();
    OWN.release();
}

/// In a forked child: it is another process, which makes notices of its own. The writing end of its
/// parent's pipe stays open: the peers of pairs from before the fork are to know that the child lives.
pub(crate) fn forked() {
    drop(OWN.with(Option::take));
    WRITER.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_instance_watches_peers_that_an_earlier_one_has_watched() {
        let [read, write] = call::pipe().unwrap();
        let notices = [call::pidfd_of_self().unwrap(), read].map(Fd::adopt);
        keep(Process { pid: 1, nonce: 1 }, notices.into());
        let instances = [0; 2].map(|_| Fd::adopt(poll::epoll_create().unwrap()));
        instances.iter().for_each(|instance| watch(instance.raw(), 7, true));
        drop(Fd::adopt(write));
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        for instance in &instances {
            assert_eq!(poll::epoll_wait(instance.raw(), &mut events, Some(0), None), Ok(1));
            assert_eq!({ events[0].u64 }, 7);
        }
    }
}
