//! This process's doorbells, by which its threads that sleep in epoll or poll are woken.

use super::bells;
use super::table::CHANGE;
use crate::per_engine::per_engine;
use core::sync::atomic::{AtomicI32, Ordering};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, poll};
use via_shm::layout::DOORBELLS;

per_engine! {
    /// This process's own doorbells, 0 for one not made yet.
    static DOORS: [AtomicI32; DOORBELLS] = [const { AtomicI32::new(0) }; DOORBELLS];
}

/// One of this process's doorbells, made when first asked for.
pub(crate) fn door(index: usize) -> Option<i32> {
    let door = &DOORS[index % DOORBELLS];
    let fd = door.load(Ordering::Acquire);
    if fd != 0 {
        return Some(fd);
    }
    CHANGE.lock();
    let fd = door.load(Ordering::Acquire);
    let fd = if fd != 0 {
        Some(fd)
    } else {
        let made = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK));
        made.ok().filter(Fd::is_high).map(|fd| {
            let fd = fd.into_raw();
            door.store(fd, Ordering::Release);
            fd
        })
    };
    CHANGE.unlock();
    fd
}

/// An epoll instance in which one of this process's doorbells lies, edge-triggered: a ring wakes the
/// threads that wait in it, and needs no read to be taken back.
pub(crate) fn epoll_of_door(index: u32, token: u64) -> Option<Fd> {
    let door = door(index as usize)?;
    let epoll = Fd::make(poll::epoll_create).ok()?;
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, door, events, token).ok()?;
    EPOLLS.with(|epolls| {
        // A number that has been closed behind our back means another instance now.
        epolls.retain(|&(fd, ..)| fd != epoll.raw());
        epolls.push((epoll.raw(), index, token));
    });
    // One that becomes a pair meanwhile is listened to by either way.
    bells::listen_to_all(epoll.raw(), index);
    Some(epoll)
}

/// Closes such an instance.
pub(crate) fn leave_door(epoll: i32) {
    EPOLLS.with(|epolls| epolls.retain(|&(fd, ..)| fd != epoll));
    drop(Fd::keep(epoll));
}

per_engine! {
    /// The instances that [`epoll_of_door`] has made in this process.
    pub(super) static EPOLLS: RobustBox<Vec<(i32, u32, u64)>, { rank::DOORS }> = RobustBox::new(Vec::new());
}

/// Calls `f` for each of them, with its doorbell.
pub(super) fn each_epoll(f: impl Fn(i32, u32)) {
    EPOLLS.with(|epolls| epolls.iter().for_each(|&(epoll, index, _)| f(epoll, index)));
}

/// In a forked child: those are its parent's.
pub(super) fn forked() {
    EPOLLS.with(Vec::clear);
}

/// Around fork: see [`super::hold`].
pub(super) fn hold() {
    EPOLLS.hold();
}

/// After fork, in both.
pub(super) fn release() {
    EPOLLS.release();
}

/// Puts new doorbells in the place of this process's, which others have: peers, and a forked child's
/// parent. Threads that sleep on them look again.
pub(crate) fn renew() {
    let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
    EPOLLS.with(|epolls| {
        for (index, door) in DOORS.iter().enumerate() {
            let fd = door.load(Ordering::Acquire);
            if fd == 0 {
                continue;
            }
            let here = || epolls.iter().filter(|(_, of, _)| *of as usize % DOORBELLS == index);
            for &(epoll, ..) in here() {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
            }
            if !sovia_sys::fd::sever(fd) {
                door.store(0, Ordering::Release);
                continue;
            }
            for &(epoll, _, token) in here() {
                let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, events, token);
            }
            let _ = call::write(fd, &1u64.to_ne_bytes());
        }
    });
}

/// The doorbell for an epoll set or a sleeper of that number. The first wakes the progress thread, the
/// last the handler.
pub(crate) fn door_for(number: u32) -> u32 {
    1 + number % (DOORBELLS as u32 - 2)
}

/// All doorbells, to be handed to a peer.
pub(crate) fn doors() -> Option<[i32; DOORBELLS]> {
    let mut all = [0; DOORBELLS];
    for (i, fd) in all.iter_mut().enumerate() {
        *fd = door(i)?;
    }
    Some(all)
}

/// Rings this process's threads that sleep in epoll or poll: a ring meant for another thread does them
/// no harm.
pub(crate) fn ring_own() {
    for door in &DOORS[1..] {
        let fd = door.load(Ordering::Acquire);
        if fd != 0 {
            let _ = call::write(fd, &1u64.to_ne_bytes());
        }
    }
}
