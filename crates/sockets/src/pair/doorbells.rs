//! Doorbells of this process, which wake its threads that sleep in epoll or poll.

use super::notification_sockets;
use super::table::CHANGE;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicI32, Ordering};
use sovia_ring::layout::DOORBELLS;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, poll};

per_engine! {
    /// This process's doorbells; 0 for a doorbell that has not been made.
    static OWN_DOORBELLS: [AtomicI32; DOORBELLS] = [const { AtomicI32::new(0) }; DOORBELLS];
}

/// Returns one of this process's doorbells. Makes the doorbell at the first call.
pub(crate) fn doorbell(index: usize) -> Option<i32> {
    let doorbell = &OWN_DOORBELLS[index % DOORBELLS];
    let fd = doorbell.load(Ordering::Acquire);
    if fd != 0 {
        return Some(fd);
    }
    CHANGE.lock();
    let fd = doorbell.load(Ordering::Acquire);
    let fd = if fd != 0 {
        Some(fd)
    } else {
        let made = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK));
        made.ok().filter(Fd::is_high).map(|fd| {
            let fd = fd.into_raw();
            doorbell.store(fd, Ordering::Release);
            fd
        })
    };
    CHANGE.unlock();
    fd
}

/// Makes an epoll instance that watches one of this process's doorbells, edge-triggered. A notification wakes the
/// threads that wait in the instance, and no thread needs to read the doorbell.
pub(crate) fn epoll_of_doorbell(index: u32, token: u64) -> Option<Fd> {
    let doorbell = doorbell(index as usize)?;
    let epoll = Fd::make(poll::epoll_create).ok()?;
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, doorbell, events, token).ok()?;
    EPOLLS.with(|epolls| {
        // Remove an old entry with the same descriptor number. The program may have closed the old instance's
        // descriptor.
        epolls.retain(|&(fd, ..)| fd != epoll.raw());
        epolls.push((epoll.raw(), index, token));
    });
    // Add the notification sockets of all pairs. If another thread adds a pair at this moment, this call or
    // [`notification_sockets::watch_new`] adds the new pair's socket.
    notification_sockets::watch_all_pairs(epoll.raw(), index);
    Some(epoll)
}

/// Wakes the threads that wait in an epoll instance that [`epoll_of_doorbell`] made with the same `index` and
/// `token`. To ring the doorbell would also wake forked relatives, which have inherited the doorbell.
pub(crate) fn wake(epoll: i32, index: u32, token: u64) {
    let doorbell = OWN_DOORBELLS[index as usize % DOORBELLS].load(Ordering::Acquire);
    if doorbell != 0 {
        // The kernel now checks the doorbell once more. An eventfd has room for another ring, so the kernel reports it.
        let events = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;
        let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, doorbell, events, token);
    }
}

/// Closes an epoll instance that [`epoll_of_doorbell`] made.
pub(crate) fn close_epoll_of_doorbell(epoll: i32) {
    EPOLLS.with(|epolls| epolls.retain(|&(fd, ..)| fd != epoll));
    drop(Fd::keep(epoll));
}

per_engine! {
    /// Epoll instances that [`epoll_of_doorbell`] has made in this process: descriptor, doorbell and token of each.
    pub(super) static EPOLLS: RobustBox<Vec<(i32, u32, u64)>, { rank::DOORBELLS }> = RobustBox::new(Vec::new());
}

/// Calls `f` with each epoll instance that [`epoll_of_doorbell`] made, and with the index of its doorbell.
pub(super) fn each_epoll(f: impl Fn(i32, u32)) {
    EPOLLS.with(|epolls| epolls.iter().for_each(|&(epoll, index, _)| f(epoll, index)));
}

/// Forgets the epoll instances in a forked child, because the instances belong to its parent.
pub(super) fn forked() {
    EPOLLS.with(Vec::clear);
}

/// Called before fork: locks the list of epoll instances.
pub(super) fn hold() {
    EPOLLS.hold();
}

/// Called after fork, in parent and child: unlocks the list of epoll instances.
pub(super) fn release() {
    EPOLLS.release();
}

/// Replaces this process's doorbells by new eventfds with the same descriptor numbers, because other processes have
/// the old ones. Wakes the threads that sleep on the doorbells.
pub(crate) fn renew() {
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    EPOLLS.with(|epolls| {
        for (index, doorbell) in OWN_DOORBELLS.iter().enumerate() {
            let fd = doorbell.load(Ordering::Acquire);
            if fd == 0 {
                continue;
            }
            let here = || epolls.iter().filter(|(_, of, _)| *of as usize % DOORBELLS == index);
            for &(epoll, ..) in here() {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
            }
            if !sovia_sys::fd::sever(fd) {
                doorbell.store(0, Ordering::Release);
                continue;
            }
            for &(epoll, _, token) in here() {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, token);
            }
            let _ = call::write(fd, &1u64.to_ne_bytes());
        }
    });
}

/// Returns the index of the doorbell for the epoll set or sleeper with this number. The first doorbell belongs to
/// the progress thread, the last to the handler thread.
pub(crate) fn doorbell_for(number: u32) -> u32 {
    1 + number % (DOORBELLS as u32 - 2)
}

/// Returns the descriptors of all doorbells of this process, for sending to a peer.
pub(crate) fn doorbells() -> Option<[i32; DOORBELLS]> {
    let mut all = [0; DOORBELLS];
    for (i, fd) in all.iter_mut().enumerate() {
        *fd = doorbell(i)?;
    }
    Some(all)
}

/// Returns the descriptors of the doorbells that exist.
pub(crate) fn made_doorbells() -> [Option<i32>; DOORBELLS] {
    OWN_DOORBELLS
        .each_ref()
        .map(|doorbell| Some(doorbell.load(Ordering::Acquire)).filter(|&fd| fd != 0))
}

/// Takes over a doorbell from the process that has executed this program. Called at the program's start.
pub(crate) fn take_doorbell(index: usize, fd: Fd) {
    OWN_DOORBELLS[index].store(fd.into_raw(), Ordering::Release);
}

/// Wakes this process's threads that sleep in epoll or poll. A thread that has no event sleeps again.
pub(crate) fn ring_own() {
    for doorbell in &OWN_DOORBELLS[1..] {
        let fd = doorbell.load(Ordering::Acquire);
        if fd != 0 {
            let _ = call::write(fd, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_an_instance_leaves_other_instances_of_the_doorbell_asleep() {
        let ours = epoll_of_doorbell(2, 7).unwrap();
        let relatives = Fd::adopt(poll::epoll_create().unwrap());
        let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
        let doorbell = doorbell(2).unwrap();
        poll::epoll_ctl(relatives.raw(), libc::EPOLL_CTL_ADD, doorbell, events, 7).unwrap();
        let mut found = [libc::epoll_event { events: 0, u64: 0 }; 2];
        for _ in 0..2 {
            wake(ours.raw(), 2, 7);
            assert_eq!(poll::epoll_wait(relatives.raw(), &mut found, Some(0), None), Ok(0));
            assert_eq!(poll::epoll_wait(ours.raw(), &mut found, Some(0), None), Ok(1));
            assert_eq!({ found[0].u64 }, 7);
        }
        // A ring reaches all instances, also after a wake.
        call::write(doorbell, &1u64.to_ne_bytes()).unwrap();
        for instance in [&ours, &relatives] {
            assert_eq!(poll::epoll_wait(instance.raw(), &mut found, Some(0), None), Ok(1));
        }
    }
}
