//! Finds out whether a receive or send would return without waiting.

use super::entering::{Origin, next_from};
use super::failover::BringResult;
use super::hold::next_in_ring;
use super::receive::idle;
use super::send::{goes_over_vi, has_shut};
use super::take::{has_coalesced, has_kept, is_returning};
use super::{
    Got, ROOM, backlog, corrupt_here, ending, failover, handler_queue, reflected, returned, tx,
    word,
};
use crate::conn::{Conn, Guard, HasEndpoint, WakeWord, flag};
use crate::{kernel_sockets, pair};
use core::sync::atomic::Ordering;
use sovia_proto::order::Next;
use sovia_proto::packet::Kind;
use sovia_proto::path::Rx;
use sovia_ring::endpoint::{Expected, Receiver};
use sovia_ring::layout::Direction;
use sovia_sync::hazard::Waits;
use sovia_sys::{call, poll};

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
            // If there are no held packets and no coalesced bytes, the next packet is in the ring and is found
            // below.
            if guard.held_first != guard.held_end || has_coalesced(guard) {
                if is_returning(guard) {
                    return readable(guard, fd);
                }
                if has_kept(guard) {
                    return true;
                }
            }
            if !handler_queue::is_here(guard) {
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
        // TCP may have bytes after the switch, such as a failover record. They do not make the socket readable, so
        // `next_from` is called before TCP is examined.
        Rx::Granted if reflected::is_reflected(guard) || failover::is_on(guard) => {
            match next_from(guard) {
                Ok(Origin::Vi) => readable(guard, fd),
                Ok(Origin::Nowhere) => conn.has(flag::SHUT_RD),
                Ok(Origin::Tcp { shows_end, .. }) => on_tcp(guard, fd, shows_end),
                Err(_) => true,
            }
        }
        Rx::Granted => {
            if on_tcp(guard, fd, true) {
                return true;
            }
            // TCP has no bytes. If TCP has been read up to the switch, `next_from` moves the direction to the VI.
            match next_from(guard) {
                Ok(Origin::Vi) => readable(guard, fd),
                Ok(Origin::Tcp { .. } | Origin::Nowhere) => false,
                Err(_) => true,
            }
        }
        Rx::Tcp | Rx::Back => on_tcp(guard, fd, reflected::tcp_reports_the_end(guard)),
    }
}

/// Returns true if a receive from the kernel socket would find bytes, the end or an error. `shows_end`: an end of TCP is
/// the end of the stream.
fn on_tcp(guard: &mut Guard<'_>, fd: i32, shows_end: bool) -> bool {
    let conn = guard.conn;
    conn.clear(flag::KERNEL_SOCKET);
    match failover::bring(guard, fd) {
        BringResult::Next => {}
        BringResult::Nothing => return conn.has(flag::SHUT_RD),
        BringResult::Over => return true,
    }
    let mut found = conn.has(flag::RESET) || poll::probe(fd, libc::POLLIN) != 0;
    if found && !shows_end {
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
        if !guard.coalescer.is_coalescing() {
            return true;
        }
        let taken = tx(guard).reader.load(word::HEAD);
        guard.coalescer.next(taken) == Next::Packet
            || guard.coalescer.waiting() <= ROOM && backlog::has_room(guard)
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

/// Words that change when a receive may find a new event. A waiting thread polls these words without the
/// connection's lock.
#[derive(Clone, Copy)]
pub struct WatchedWords<'a> {
    conn: &'a Conn,
    rx: &'a Direction,
    message: Expected<'a>,
    head: u64,
    switch: u64,
    /// Set if this end received on the VI at the start. If not, bytes on the VI are no event yet.
    on_vi: bool,
    /// Set if [`flag::KERNEL_SOCKET`] was set at the start.
    kernel_socket: bool,
    /// The futex word that the handler thread changes, and the word's value at the start. `None` if the connection
    /// has no handler thread.
    handler_word: Option<(&'a WakeWord, u32)>,
}

impl<'a> WatchedWords<'a> {
    /// Stores the present state of the receiving half of an attached connection.
    pub fn new(guard: &Guard<'a>, waits: &'a Waits) -> WatchedWords<'a> {
        pair::keep(guard, waits);
        let receiver: *const Receiver = &raw const guard.endpoint_ref().rx;
        // SAFETY: the endpoint's receiver is borrowed for this statement only, under the lock. The two returned
        // references point into the segment. The segment stays mapped while its pair is registered in `waits`,
        // which outlives the references.
        let (rx, message) = unsafe { ((*receiver).direction(), (*receiver).expected()) };
        WatchedWords {
            conn: guard.conn,
            rx,
            message,
            head: guard.taker.head,
            switch: rx.path.load(word::SWITCH),
            on_vi: guard.conn.rx() == Rx::Vi,
            kernel_socket: guard.conn.has(flag::KERNEL_SOCKET),
            handler_word: guard.conn.has_handler().then(|| {
                let handler_wake_word = &guard.conn.handler_wake_word;
                (handler_wake_word, handler_wake_word.word().load(Ordering::Acquire))
            }),
        }
    }

    /// Returns true if this end received on the VI when the state was stored.
    pub(crate) fn is_on_vi(&self) -> bool {
        self.on_vi
    }

    /// Returns true if a receive may find a new event since [`WatchedWords::new`]. May return true without an event.
    /// Misses an event only if other threads have since received a whole ring of messages.
    #[inline]
    pub fn changed(&self) -> bool {
        if !self.on_vi {
            return self.conn.has(flag::KERNEL_SOCKET) != self.kernel_socket
                || self.rx.path.0[word::SWITCH].load(Ordering::Relaxed) != self.switch;
        }
        if let Some((handler_wake_word, before)) = self.handler_word {
            return handler_wake_word.word().load(Ordering::Relaxed) != before;
        }
        self.message.has_come() || self.rx.writer.0[word::TAIL].load(Ordering::Relaxed) != self.head
    }
}
