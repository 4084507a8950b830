//! Descriptors that report a process's death: this process's death to its peers, and a peer's death to this process.
//!
//! The kernel socket ends when the last process that holds it has gone, and reports this by FIN. But the FIN may lie
//! behind bytes that this end does not read. Or the FIN came earlier, when the peer closed one half. So each process
//! gives its peers two descriptors beside its doorbells:
//!
//! - A pidfd of itself, which becomes readable when the process has ended.
//! - The reading end of a pipe without any data. Forked children inherit its writing end, and exec closes it. So the
//!   pipe hangs up when no process is left that could use the segment. Another user's process gets one end of a pair of
//!   sockets instead ([`crate::pair::bells`]). The holder of a pipe could block every process that closes the pipe.
//!
//! The progress thread watches both.

use crate::message::Process;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, clock, poll};

/// Number of descriptors that report a process's death.
pub(crate) const NOTICES: usize = 2;

per_engine! {
    /// This process's own descriptors: the pidfd and the pipe's reading end. The writing end stays open until the
    /// process ends or leaves its peers.
    static OWN: RobustBox<Option<[Fd; NOTICES]>, { rank::NOTICES }> = RobustBox::new(None);
    /// Descriptor of the writing end, if this process has made it; otherwise 0.
    static WRITER: AtomicI32 = AtomicI32::new(0);
    static PEERS: RobustBox<Vec<Peer>, { rank::PEERS }> = RobustBox::new(Vec::new());
    /// Number of peers that have been added.
    static ADDED: AtomicU32 = AtomicU32::new(0);
}

/// State of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// The process lives, as far as is known.
    Alive,
    /// The process has died. Its forked children may hold its connections.
    ProcessDied,
    /// All processes with the segment have died, since this time (nanoseconds of the monotonic clock).
    AllDied(u64),
}

struct Peer {
    process: Process,
    notices: [Fd; NOTICES],
    /// State at the last look.
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

/// Returns the descriptors that report this process's death, to pass on to a peer.
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

/// Keeps the descriptors that report a peer's death. Returns false if `fds` is not complete.
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

/// Returns the number of peers that have been added. Call [`watch`] again once it has changed.
pub(crate) fn added() -> u32 {
    ADDED.load(Ordering::Acquire)
}

/// Makes an epoll instance of this process report all peers' deaths with `token`. `is_new`: the instance watches no
/// peer yet, even if an earlier instance, or the parent's, did.
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

/// Checks which peers have died. Removes peers whose processes have all died and that are not `in_use`.
pub(crate) fn look(now: u64, in_use: impl Fn(Process) -> bool) {
    PEERS.with(|peers| {
        peers.iter_mut().for_each(|peer| peer.look(now));
        peers.retain(|peer| !matches!(peer.life, Life::AllDied(_)) || in_use(peer.process));
    });
}

/// Returns the state of a peer at the last look.
pub(crate) fn life(process: Process) -> Life {
    PEERS.with(|peers| {
        let peer = peers.iter().find(|peer| peer.process == process);
        peer.map_or(Life::Alive, |peer| peer.life)
    })
}

/// Looks at a peer and returns its state. `None` if the peer is unknown.
pub(crate) fn life_now(process: Process) -> Option<Life> {
    PEERS.with(|peers| {
        let peer = peers.iter_mut().find(|peer| peer.process == process)?;
        peer.look(clock::now_ns());
        Some(peer.life)
    })
}

/// Returns true if the last look found a dead peer.
pub(crate) fn any_has_died() -> bool {
    PEERS.with(|peers| peers.iter().any(|peer| peer.life != Life::Alive))
}

/// Leaves all peers. This process closes the peers' descriptors. It also closes its own, which showed the peers that it
/// lives.
pub(crate) fn leave_all() {
    drop(OWN.with(Option::take));
    let writer = WRITER.swap(0, Ordering::Relaxed);
    if writer != 0 {
        drop(Fd::keep(writer));
    }
    drop(PEERS.with(core::mem::take));
}

/// Takes the locks before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    OWN.hold();
    PEERS.hold();
}

/// Releases the locks after a fork, in parent and child.
pub(crate) fn release() {
    PEERS.release();
    OWN.release();
}

/// Called in a forked child, which makes descriptors of its own. The writing end of its parent's pipe stays open. The
/// open end shows the peers of pairs from before the fork that the child lives.
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
