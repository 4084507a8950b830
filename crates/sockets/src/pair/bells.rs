//! By what strangers ring, and what tells them of this process's death.
//!
//! A doorbell is an eventfd, and all that have it have the same open file: a stranger could make it one that blocks whichever
//! process rings. So each stranger gets *bells* of its own: for each door one end of a pair of connected sockets, of which this
//! process keeps the other. The stranger rings by sending a byte, and never waits ([`ring`]). What it does to its end stays
//! there: it can fill it, shut it or leave it, and wakes nobody by it, which is its own loss.
//!
//! **No lock of a stranger's.** A stranger can hold a lock of any file that it has: of a pipe in a splice that does not end, of
//! a socket in a receive into memory of its own that is never there. A call that wants the same lock then waits in a sleep that no
//! signal ends, whatever flags it has. Of a pipe both ends have one lock. A socket that is received from has its own, and sending to
//! it does not take it. So this process receives from sockets that no other one has, and sends by those that strangers have handed
//! over. It does nothing else to those; not even look what lies there, and not close them: a stranger can have put something there
//! whose closing takes long, so a thread of its own closes them ([`crate::closer`]).
//!
//! **No missed wake-up.** Each byte that is sent is an event in each epoll instance where the hearing end lies, edge-triggered.
//! The instance asks for [`libc::EPOLLOUT`] as well, which always holds there, since nothing is sent from that end: so the event
//! stands though another thread has taken the byte meanwhile. Whoever gets an event takes what lies there before it looks for
//! news ([`heard`]). A ring for which there is no room found bytes that are taken later, by a thread that looks then.

use super::doors;
use super::table::get;
use super::{Pair, each};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, datagram, poll};
use via_shm::layout::DOORBELLS;

/// Ends that a stranger is handed: one of each bell, and one that hangs up when no process of this family is left.
pub(crate) const HANDED: usize = DOORBELLS + 1;

/// What this process has of a stranger's bells.
#[derive(Debug)]
pub(super) struct Bells {
    /// The hearing ends, in the place of the doorbell of the same number.
    hears: [Fd; DOORBELLS],
    /// Forked children have it, too, and exec closes it.
    life: Fd,
    /// The other ends, until the stranger has them.
    handed: RobustBox<Option<[Fd; HANDED]>, { rank::FILE }>,
}

/// User data of the bells in epoll instances: no pointers, and unlikely as numbers.
const FIRST: u64 = 0xd5_0b1a_d000_0000;
/// Numbers of user data: a door in the lowest three bits, above it the pair.
const DATA: u64 = 1 << 16;
const DOOR_BITS: u32 = 3;
const _: () = assert!(DOORBELLS <= 1 << DOOR_BITS);

fn data_of(pair: u32, door: u32) -> u64 {
    FIRST + (u64::from(pair) << DOOR_BITS | u64::from(door))
}

const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;

impl Bells {
    /// New ones; `None` if there are not enough descriptors.
    pub(super) fn new() -> Option<Bells> {
        let pair = || {
            let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let [own, its] = call::socketpair(libc::AF_UNIX, kind).ok()?.map(Fd::adopt);
            // From Linux 6.16 on no descriptor can be sent to it, which somebody would have to close.
            let _ = call::setsockopt(own.raw(), libc::SOL_SOCKET, datagram::SO_PASSRIGHTS, &0i32);
            // Before that, what has come out of band would be closed by whichever thread receives.
            let _ = call::setsockopt(own.raw(), libc::SOL_SOCKET, libc::SO_OOBINLINE, &1i32);
            (own.is_high() && its.is_high()).then_some((own, its))
        };
        let (mut hears, mut handed) = (Vec::new(), Vec::new());
        for _ in 0..HANDED {
            let (own, its) = pair()?;
            hears.push(own);
            handed.push(its);
        }
        let life = hears.pop()?;
        let (Ok(hears), Ok(handed)) = (hears.try_into(), handed.try_into()) else { return None };
        Some(Bells { hears, life, handed: RobustBox::new(Some(handed)) })
    }

    fn hearing(&self, door: u32) -> i32 {
        self.hears[door as usize % DOORBELLS].raw()
    }

    /// The ends for the stranger, while it may not have them.
    pub(super) fn to_hand_over(&self) -> Option<[i32; HANDED]> {
        self.handed.with(|handed| handed.as_ref().map(|ends| ends.each_ref().map(Fd::raw)))
    }

    /// The stranger has its ends: this process keeps none of them, so that it is told when they are gone.
    pub(super) fn handed_over(&self) {
        drop(self.handed.with(Option::take));
    }

    /// Has nothing of them any more. Its descriptors stay with their numbers, as something that no other process has.
    pub(super) fn sever(&self) {
        self.handed_over();
        self.shut();
        for end in self.hears.iter().chain([&self.life]) {
            sovia_sys::fd::sever(end.raw());
        }
    }

    /// Nothing can be sent to them any more, and nothing lies there: closing it might take long.
    fn shut(&self) {
        for end in self.hears.iter().chain([&self.life]) {
            let _ = call::shutdown(end.raw(), libc::SHUT_RDWR);
            empty(end);
        }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Takes what lies in a bell; whether anything did.
#[cold]
#[inline(never)]
fn empty(end: &Fd) -> bool {
    // As much as an honest stranger has there at most; one that sends more wakes threads for longer.
    const TURNS: usize = 16;
    let (mut bytes, mut any) = ([0; 64], false);
    for _ in 0..TURNS {
        // Descriptors that have come with it are closed by a thread that may take long for it.
        let Ok(received) = datagram::receive_message(end.raw(), &mut bytes) else { break };
        any |= received.len > 0;
        if received.len < bytes.len() && received.fds.is_empty() {
            break;
        }
    }
    any
}

/// Whether a descriptor is what a stranger hands over as the end of a bell: an end of a pair of connected sockets.
pub(crate) fn is_end(fd: &Fd) -> bool {
    let word = |name| call::getsockopt::<i32>(fd.raw(), libc::SOL_SOCKET, name);
    word(libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && word(libc::SO_TYPE) == Ok(libc::SOCK_STREAM)
        // One that has a name is a service's, to which this process would seem to speak.
        && call::has_nameless_peer(fd.raw())
}

/// A number that such a descriptor has had stays, as something that no other process has; the descriptor is closed by the thread
/// that does so.
pub(super) fn sever_end(fd: &Fd) {
    let copy = Fd::duplicate(fd.raw(), fd.raw()).map(Fd::suspected);
    sovia_sys::fd::sever(fd.raw());
    drop(copy);
}

/// Rings a stranger.
pub(super) fn ring(fd: &Fd) {
    let _ = call::send(fd.raw(), &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
}

/// Whether an event of that user data is a bell's; what lies there has been taken.
#[inline]
pub(crate) fn heard(data: u64) -> bool {
    let number = data.wrapping_sub(FIRST);
    if number >= DATA {
        return false;
    }
    take_from(number as u32);
    true
}

#[cold]
fn take_from(number: u32) {
    if let Some(pair) = get(number >> DOOR_BITS)
        && let Some(bells) = &pair.bells
    {
        let end = &bells.hears[(number & ((1 << DOOR_BITS) - 1)) as usize % DOORBELLS];
        // There is an event without a ring as well, when an instance begins to listen.
        if empty(end) && pair.has_doors() {
            // The stranger has rung, so it has its ends, and this process has the stranger's.
            bells.handed_over();
        }
    }
}

impl Pair {
    /// Has an epoll instance be told of rings by this pair's peer at that door, if it is a stranger. `index` is the pair's.
    pub(crate) fn listen(&self, index: u32, epoll: i32, door: u32) {
        if let Some(bells) = &self.bells {
            let door = door % DOORBELLS as u32;
            let data = data_of(index, door);
            let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, bells.hearing(door), EVENTS, data);
        }
    }

    /// The instance is told no more.
    pub(crate) fn listen_no_more(&self, epoll: i32, door: u32) {
        if let Some(bells) = &self.bells {
            let _ = poll::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, bells.hearing(door), 0, 0);
        }
    }

    /// The pair is about to go: no instance that [`doors::epoll_of_door`] has made is told of it.
    pub(super) fn leave_instances(&self) {
        doors::each_epoll(|epoll, door| self.listen_no_more(epoll, door));
    }
}

/// A pair has come into the table: threads that sleep already are told of its peer's rings.
pub(super) fn listen_to(index: u32) {
    if let Some(pair) = get(index) {
        doors::each_epoll(|epoll, door| pair.listen(index, epoll, door));
    }
}

/// An instance for that door is new: it is told of every stranger's rings.
pub(super) fn listen_to_all(epoll: i32, door: u32) {
    each(|index, pair| pair.listen(index, epoll, door));
}

const _: () = assert!((super::table::PAIRS as u64) << DOOR_BITS <= DATA);
