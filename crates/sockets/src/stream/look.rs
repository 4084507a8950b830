//! Finds out whether a call would succeed without waiting.

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

/// Returns true if a receive would find bytes, the end or an error.
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
            // If neither is there, a packet that ends the direction is first in the ring, and is found below.
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
        // Bytes on TCP after the switch are not the program's next bytes.
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
            // TCP has no bytes. The next call finds out whether TCP has been read up to the switch.
            match next_from(guard) {
                Ok(Origin::Vi) => readable(guard, fd),
                Ok(Origin::Tcp(_) | Origin::Nowhere) => false,
                Err(_) => true,
            }
        }
        Rx::Tcp | Rx::Back => on_tcp(guard, fd),
    }
}

/// Returns true if a receive from the kernel socket would find something.
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

/// Returns true if a send would accept bytes, or would fail at once.
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

/// Words that change when a receive may find something new. A thread reads them without the connection's lock.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    conn: &'a Conn,
    rx: &'a Direction,
    message: Expected<'a>,
    head: u64,
    switch: u64,
    /// Set if the receiver is on the VI. If it is still on TCP, bytes on the VI must wait and are no event.
    on_vi: bool,
    /// Set if an event of the kernel socket was already flagged.
    kernel_socket: bool,
    /// The program's futex word and its value at the start, if the handler thread takes messages off the ring.
    handled: Option<(&'a Bell, u32)>,
}

impl<'a> Watch<'a> {
    /// Notes the present state of the receiving side of an attached connection.
    pub fn new(guard: &Guard<'a>, waits: &'a Waits) -> Watch<'a> {
        pair::keep(guard, waits);
        let receiver: *const Receiver = &raw const guard.endpoint_ref().rx;
        // SAFETY: the receiver is borrowed for this statement only, under the lock. The two references that stay point
        // into the segment, which stays mapped while `waits` names its pair.
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

    /// Returns true if the receiving side was on the VI.
    pub(crate) fn is_on_vi(&self) -> bool {
        self.on_vi
    }

    /// Returns true if something has changed since [`Watch::new`]. Cheap, and may return true without a change. It may
    /// miss a change only if other threads have received a whole ring of messages since.
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
