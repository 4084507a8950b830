//! Looking whether a call would find something.

use super::entering::{Origin, next_from};
use super::failover::Brought;
use super::hold::next_in_ring;
use super::receive::idle;
use super::send::{goes_over_vi, has_shut};
use super::take::{has_gathered, has_kept, is_returning};
use super::{
    Got, ROOM, backlog, corrupt_here, ending, failover, handled, reflected, returned, tx, word,
};
use crate::conn::{Bell, Conn, Guard, HasEndpoint, flag};
use crate::{kernel_sockets, pair};
use core::sync::atomic::Ordering;
use sovia_proto::order::Next;
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_sync::hazard::Waits;
use sovia_sys::{call, poll};
use via_shm::endpoint::{Expected, Receiver};
use via_shm::layout::Direction;

/// Whether a receive would find something (bytes, the end, an error).
pub fn readable(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    if let Some(got) = reflected::instead(guard) {
        return got != Got::Nothing;
    }
    failover::leaves_vi(guard);
    match conn.rx() {
        Rx::Vi => {
            if guard.front != 0 {
                return true;
            }
            // Otherwise a packet that ends the direction is the first in the ring, and found there.
            if guard.held_first != guard.held_end || has_gathered(guard) {
                if is_returning(guard) {
                    return readable(guard, fd);
                }
                if has_kept(guard) {
                    return true;
                }
            }
            if !handled::is_here(guard) {
                match next_in_ring(guard) {
                    Ok(None) => {}
                    Ok(Some(Kind::ToTcp)) if is_returning(guard) => return readable(guard, fd),
                    Ok(Some(_)) => return true,
                    Err(_) => {
                        corrupt_here(guard);
                        return true;
                    }
                }
            }
            match idle(guard, fd, false) {
                Got::Nothing => false,
                Got::Bytes(_) if is_returning(guard) => readable(guard, fd),
                _ => true,
            }
        }
        // Bytes on TCP behind the switch are none of the program's.
        Rx::Granted if reflected::is_reflected(guard) || failover::is_on(guard) => {
            match next_from(guard) {
                Ok(Origin::Vi) => readable(guard, fd),
                Ok(Origin::Nowhere) => conn.has(flag::SHUT_RD),
                Ok(Origin::Tcp(_)) => on_tcp(guard, fd),
                Err(_) => true,
            }
        }
        Rx::Granted => {
            if on_tcp(guard, fd) {
                return true;
            }
            // TCP has nothing: whether it has been read up to the switch.
            match next_from(guard) {
                Ok(Origin::Vi) => readable(guard, fd),
                Ok(Origin::Tcp(_) | Origin::Nowhere) => false,
                Err(_) => true,
            }
        }
        Rx::Tcp | Rx::Back => on_tcp(guard, fd),
    }
}

/// Whether a receive from the kernel socket would find something.
fn on_tcp(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    conn.clear(flag::KERNEL_SOCKET);
    match failover::bring(guard, fd) {
        Brought::Next => {}
        Brought::Nothing => return conn.has(flag::SHUT_RD),
        Brought::Over => return true,
    }
    let mut found = conn.has(flag::RESET) || poll::probe(fd, libc::POLLIN) != 0;
    if found && !reflected::tcp_tells_the_end(guard) {
        found = call::bytes_unread(fd).is_ok_and(|n| n > 0);
    }
    if found {
        conn.set(flag::KERNEL_SOCKET);
    }
    found
}

/// Whether a send would accept something, or fail at once.
pub fn writable(guard: &mut Guard<'_>, fd: i32) -> bool {
    let conn = guard.conn;
    ending::has_gone(guard, fd);
    if goes_over_vi(conn) && !has_shut(guard) {
        if !backlog::is_allowed_more(guard) {
            return false;
        }
        if !guard.gatherer.is_gathering() {
            return true;
        }
        let taken = tx(guard).reader.load(word::HEAD);
        guard.gatherer.next(taken) == Next::Packet
            || guard.gatherer.waiting() <= ROOM && backlog::has_room(guard)
    } else if returned::holds_back(guard, fd) {
        false
    } else {
        let has_room = poll::probe(fd, libc::POLLOUT) != 0;
        if !has_room {
            kernel_sockets::watch_room(guard, fd);
        }
        has_room
    }
}

/// What changes when a receive may find something new, to be looked at without the connection's lock.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    conn: &'a Conn,
    rx: &'a Direction,
    message: Expected<'a>,
    head: u64,
    switch: u64,
    /// On TCP still, the VI's bytes must wait, and are no news.
    on_vi: bool,
    /// The kernel socket's news had come before, and been looked at.
    kernel_socket: bool,
    /// The bell that is rung for the program, and the value its word had, where a thread of Sovia's handles messages.
    handled: Option<(&'a Bell, u32)>,
}

impl<'a> Watch<'a> {
    /// Notes where the receiving side of an attached connection stands.
    pub fn new(guard: &Guard<'a>, waits: &'a Waits) -> Watch<'a> {
        pair::keep(guard, waits);
        let receiver: *const Receiver = &raw const guard.endpoint_ref().rx;
        // SAFETY: the receiver is borrowed for this statement only, under the lock. What is kept of it lies
        // in the segment, which stays mapped while `waits` names its pair.
        let (rx, message) = unsafe { ((*receiver).direction(), (*receiver).expected()) };
        Watch {
            conn: guard.conn,
            rx,
            message,
            head: guard.taker.head,
            switch: rx.path.load(word::SWITCH),
            on_vi: guard.conn.rx() == Rx::Vi,
            kernel_socket: guard.conn.has(flag::KERNEL_SOCKET),
            handled: guard.conn.is_handled().then(|| {
                let news = &guard.conn.news;
                (news, news.word().load(Ordering::Acquire))
            }),
        }
    }

    /// Whether the receiving side was on the VI.
    pub(crate) fn is_on_vi(&self) -> bool {
        self.on_vi
    }

    /// Whether something has changed since. Cheap; may err towards yes, and towards no only if
    /// other threads have received a ring's worth of messages meanwhile.
    #[inline]
    pub fn changed(&self) -> bool {
        if !self.on_vi {
            return self.conn.has(flag::KERNEL_SOCKET) != self.kernel_socket
                || self.rx.path.0[word::SWITCH].load(Ordering::Relaxed) != self.switch;
        }
        if let Some((news, before)) = self.handled {
            return news.word().load(Ordering::Relaxed) != before;
        }
        self.message.has_come() || self.rx.writer.0[word::TAIL].load(Ordering::Relaxed) != self.head
    }
}
