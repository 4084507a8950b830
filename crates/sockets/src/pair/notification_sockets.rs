//! Notification sockets: they replace doorbells for peers by rule, and report this process's death to such peers.
//!
//! A doorbell is an eventfd, and all processes that have it share one open file description. Another user's process
//! could make the eventfd blocking, and so block every process that writes to it. So each peer by rule gets
//! *notification sockets* of its own. For each doorbell, the peer gets one end of a pair of connected sockets, and
//! this process keeps the other end. The peer notifies this process by sending a byte, and never waits ([`ring`]).
//! The peer may fill, shut down or close its end. Then only the peer's own notifications are lost.
//!
//! **No lock that another user can hold.** A process can hold the kernel's lock of any file that the process has
//! open. It holds a pipe's lock during a splice that does not end. It holds a socket's lock during a receive into
//! memory whose page never comes. A call of another process that needs the same lock then sleeps, and no signal or
//! flag ends the sleep. Both ends of a pipe share one lock. A socket has a lock for receiving, which sending to the
//! socket does not take. So this process receives only from sockets that no other process has. On a socket that
//! came from a peer by rule, this process only sends. It does not even query the socket's unread bytes. Closing the
//! socket may take long, because the peer may have sent descriptors to it. So a separate thread closes such sockets
//! ([`crate::closer`]).
//!
//! **No missed wake-up.** Each byte that arrives is an edge-triggered event in each epoll instance that watches the
//! receiving end. The instance also asks for [`libc::EPOLLOUT`], which always holds because nothing is sent from
//! the receiving end. So the event is reported even if another thread has already read the byte. A thread that gets
//! an event reads the bytes before it looks for events of connections ([`take_notification`]). A notification that
//! finds the socket full is not lost. A thread will read the earlier bytes, and then look for events.

use super::doorbells;
use super::table::get;
use super::{Pair, each};
use sovia_ring::layout::DOORBELLS;
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, datagram, poll};

/// Number of socket ends that a peer by rule receives: one for each doorbell, and one that hangs up when the whole
/// family has ended.
pub(crate) const HANDED: usize = DOORBELLS + 1;

/// This process's notification sockets for one peer by rule.
#[derive(Debug)]
pub(super) struct NotificationSockets {
    /// Receiving ends, each in place of the doorbell with the same index.
    receiving: [Fd; DOORBELLS],
    /// This process's end of the pair of sockets that reports the family's death. Forked children inherit this end, and
    /// so does a program that joins the family. Any other exec closes it.
    death_socket: Fd,
    /// The ends for the peer, until the peer has received them.
    handed: RobustBox<Option<[Fd; HANDED]>, { rank::FILE }>,
}

/// Lowest value of a notification socket's user data in epoll instances. No pointer has such a value, and a program
/// is unlikely to choose such a number.
const FIRST: u64 = 0xd5_0b1a_d000_0000;
/// Number of values for the user data of notification sockets. Above [`FIRST`], the lowest three bits are the
/// doorbell's index, and the higher bits are the pair's index.
const DATA: u64 = 1 << 16;
const DOORBELL_BITS: u32 = 3;
const _: () = assert!(DOORBELLS <= 1 << DOORBELL_BITS);

fn data_of(pair: u32, doorbell: u32) -> u64 {
    FIRST + (u64::from(pair) << DOORBELL_BITS | u64::from(doorbell))
}

const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLET) as u32;

impl NotificationSockets {
    /// Makes the socket pairs. Returns `None` if there are not enough descriptors.
    pub(super) fn new() -> Option<NotificationSockets> {
        let pair = || {
            let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let [own, its] = call::socketpair(libc::AF_UNIX, kind).ok()?.map(Fd::adopt);
            // Let the socket refuse descriptors, which a thread would have to close. This works from Linux 6.16 on.
            let _ = call::setsockopt(own.raw(), libc::SOL_SOCKET, datagram::SO_PASSRIGHTS, &0i32);
            // Receive out-of-band data inline. Otherwise, on older kernels, the receiving thread would close
            // descriptors that came with such data.
            let _ = call::setsockopt(own.raw(), libc::SOL_SOCKET, libc::SO_OOBINLINE, &1i32);
            (own.is_high() && its.is_high()).then_some((own, its))
        };
        let (mut receiving, mut handed) = (Vec::new(), Vec::new());
        for _ in 0..HANDED {
            let (own, its) = pair()?;
            receiving.push(own);
            handed.push(its);
        }
        let death_socket = receiving.pop()?;
        let (Ok(receiving), Ok(handed)) = (receiving.try_into(), handed.try_into()) else {
            return None;
        };
        Some(NotificationSockets { receiving, death_socket, handed: RobustBox::new(Some(handed)) })
    }

    /// Returns this process's sockets for a program that it executes.
    pub(super) fn passed(&self) -> [i32; HANDED] {
        let mut all = [self.death_socket.raw(); HANDED];
        for (to, end) in all.iter_mut().zip(&self.receiving) {
            *to = end.raw();
        }
        all
    }

    /// Takes over the sockets from the process that has executed this program. The peer has its ends.
    pub(super) fn take(sockets: [Fd; HANDED]) -> NotificationSockets {
        let [receiving @ .., death_socket] = sockets;
        NotificationSockets { receiving, death_socket, handed: RobustBox::new(None) }
    }

    fn receiving_end(&self, doorbell: u32) -> i32 {
        self.receiving[doorbell as usize % DOORBELLS].raw()
    }

    /// Returns the ends for the peer, or `None` once the peer has received them.
    pub(super) fn to_hand_over(&self) -> Option<[i32; HANDED]> {
        self.handed.with(|handed| handed.as_ref().map(|ends| ends.each_ref().map(Fd::raw)))
    }

    /// Closes this process's copies of the ends that the peer has received. Then this process's end of a socket
    /// pair hangs up when the peer closes the other end.
    pub(super) fn handed_over(&self) {
        drop(self.handed.with(Option::take));
    }

    /// Closes all sockets. Their descriptor numbers stay in use, for new files that no other process has.
    pub(super) fn sever(&self) {
        self.handed_over();
        self.shut();
        for end in self.receiving.iter().chain([&self.death_socket]) {
            sovia_sys::fd::sever(end.raw());
        }
    }

    /// Shuts down and empties the sockets: nothing can be sent to them afterwards, and closing them takes no time.
    fn shut(&self) {
        for end in self.receiving.iter().chain([&self.death_socket]) {
            let _ = call::shutdown(end.raw(), libc::SHUT_RDWR);
            empty(end);
        }
    }
}

impl Drop for NotificationSockets {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Takes the unread bytes off a notification socket. Returns true if there were unread bytes.
#[cold]
#[inline(never)]
fn empty(end: &Fd) -> bool {
    // Maximum number of receives, enough for all bytes of an honest peer. Further bytes stay unread, and only wake
    // threads again.
    const TURNS: usize = 16;
    let (mut bytes, mut any) = ([0; 64], false);
    for _ in 0..TURNS {
        // A separate thread closes descriptors that came with the bytes, because closing may take long.
        let Ok(received) = datagram::receive_message(end.raw(), &mut bytes) else { break };
        any |= received.len > 0;
        if received.len < bytes.len() && received.fds.is_empty() {
            break;
        }
    }
    any
}

/// Returns true if a descriptor has the type of a peer's notification socket: an end of a pair of connected Unix
/// sockets.
pub(crate) fn is_end(fd: &Fd) -> bool {
    let word = |name| call::getsockopt::<i32>(fd.raw(), libc::SOL_SOCKET, name);
    word(libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
        && word(libc::SO_TYPE) == Ok(libc::SOCK_STREAM)
        // Refuse a socket whose other end has a name. The other end may be a service, to which a notification would
        // be a message.
        && call::has_nameless_peer(fd.raw())
}

/// Replaces a peer's notification socket by a file that no other process has, at the same descriptor number. A
/// separate thread closes the socket.
pub(super) fn sever_end(fd: &Fd) {
    let copy = Fd::duplicate(fd.raw(), fd.raw()).map(Fd::suspected);
    sovia_sys::fd::sever(fd.raw());
    drop(copy);
}

/// Notifies a peer by rule, by a byte on its notification socket.
pub(super) fn ring(fd: &Fd) {
    let _ = call::send(fd.raw(), &[0], libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
}

/// Returns true if an event with this user data came from a notification socket.
#[inline]
pub(crate) fn is_notification_socket(data: u64) -> bool {
    data.wrapping_sub(FIRST) < DATA
}

/// Takes the unread bytes off a notification socket, if an event with this user data came from such a socket. Returns
/// true if so.
#[inline]
pub(crate) fn take_notification(data: u64) -> bool {
    if !is_notification_socket(data) {
        return false;
    }
    take_from(data.wrapping_sub(FIRST) as u32);
    true
}

#[cold]
fn take_from(number: u32) {
    if let Some(pair) = get(number >> DOORBELL_BITS)
        && let Some(notification_sockets) = &pair.notification_sockets
    {
        let end = &notification_sockets.receiving
            [(number & ((1 << DOORBELL_BITS) - 1)) as usize % DOORBELLS];
        // There may be no bytes: an epoll instance also reports an event when it begins to watch a socket.
        if empty(end) && pair.has_doorbells() {
            // The peer has sent a notification, so the peer has received its ends of the sockets.
            notification_sockets.handed_over();
        }
    }
}

impl Pair {
    /// Adds this pair's notification socket for a doorbell to an epoll instance, if the peer is a peer by rule.
    /// `index` is the pair's index, and `doorbell` the doorbell's.
    pub(crate) fn listen(&self, index: u32, epoll: i32, doorbell: u32) {
        if let Some(notification_sockets) = &self.notification_sockets {
            let doorbell = doorbell % DOORBELLS as u32;
            let data = data_of(index, doorbell);
            let _ = poll::epoll_ctl(
                epoll,
                libc::EPOLL_CTL_ADD,
                notification_sockets.receiving_end(doorbell),
                EVENTS,
                data,
            );
        }
    }

    /// Removes the pair's notification socket for a doorbell from an epoll instance.
    pub(crate) fn listen_no_more(&self, epoll: i32, doorbell: u32) {
        if let Some(notification_sockets) = &self.notification_sockets {
            let _ = poll::epoll_ctl(
                epoll,
                libc::EPOLL_CTL_DEL,
                notification_sockets.receiving_end(doorbell),
                0,
                0,
            );
        }
    }

    /// Removes the pair's sockets from every instance that [`doorbells::epoll_of_doorbell`] made. Called before the
    /// pair is unmapped.
    pub(super) fn leave_instances(&self) {
        doorbells::each_epoll(|epoll, doorbell| self.listen_no_more(epoll, doorbell));
    }
}

/// Adds a new pair's notification sockets to existing epoll instances, because threads may already sleep in these
/// instances.
pub(super) fn watch_new(index: u32) {
    if let Some(pair) = get(index) {
        doorbells::each_epoll(|epoll, doorbell| pair.listen(index, epoll, doorbell));
    }
}

/// Adds the notification sockets of all pairs for a doorbell to a new epoll instance.
pub(super) fn watch_all_pairs(epoll: i32, doorbell: u32) {
    each(|index, pair| pair.listen(index, epoll, doorbell));
}

const _: () = assert!((super::table::PAIRS as u64) << DOORBELL_BITS <= DATA);
