//! What is notified of a connection's news at this end: epoll sets and calls of poll by their ready lists, and
//! threads that wait for this connection alone.
//!
//! Where a thread of Sovia's handles messages, the peer tells that thread, and the thread tells the
//! program once it has handled them. Room needs no handling: of that the peer tells the program.

use crate::conn::{Bell, Conn, Guard, HasEndpoint, Phase};
use crate::pair;
use sovia_sync::hazard::Waits;
use via_shm::endpoint;

/// The ready lists that the peer tells, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listeners {
    /// Of messages.
    pub(super) reader: u32,
    /// Of room and acknowledgements.
    pub(super) writer: u32,
}

/// Those that the segment should name.
pub(super) fn of(guard: &Guard<'_>) -> Listeners {
    let program = guard.own.watchers;
    match guard.handler.ready_list() {
        None => Listeners { reader: program, writer: program },
        Some(ready_list) => {
            let handler = 1 << (ready_list & 31);
            Listeners { reader: handler, writer: program | handler }
        }
    }
}

/// Those that the segment names.
pub(super) fn found(guard: &Guard<'_>) -> Listeners {
    let endpoint = guard.endpoint_ref();
    Listeners {
        reader: endpoint.rx.direction().bell.watchers(),
        writer: endpoint.tx.direction().room.watchers(),
    }
}

/// Writes into the segment which ready lists are to be notified.
pub(super) fn say(guard: &Guard<'_>) {
    let Listeners { reader, writer } = of(guard);
    let endpoint = guard.endpoint_ref();
    for (bell, listeners) in
        [(&endpoint.rx.direction().bell, reader), (&endpoint.tx.direction().room, writer)]
    {
        for ready_list in 0..u32::BITS {
            let (is, shall) = (bell.watchers() >> ready_list & 1, listeners >> ready_list & 1);
            match (is, shall) {
                (0, 1) => bell.watch(ready_list),
                (1, 0) => bell.unwatch(ready_list),
                _ => {}
            }
        }
    }
}

/// Has a ready list of the program's notified of a connection's news, from now on.
pub(crate) fn watch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers |= 1 << (ready_list & 31);
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().bell.watch(ready_list);
    }
    endpoint.tx.direction().room.watch(ready_list);
}

/// Stops telling the ready list.
pub(crate) fn unwatch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers &= !(1 << (ready_list & 31));
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().bell.unwatch(ready_list);
    }
    endpoint.tx.direction().room.unwatch(ready_list);
}

/// The bell on which a thread sleeps that waits for something to receive: the peer's, or that of the thread
/// which handles messages. It stays where it is for as long as `waits`.
pub(crate) fn receive_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    match guard.conn.is_handled() {
        true => &guard.conn.news,
        false => reader_bell(guard, waits),
    }
}

/// The bell that the peer rings when it has sent something or has gone a step from one path to the other.
pub(crate) fn reader_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    kept(guard, &guard.endpoint_ref().rx.direction().bell, waits)
}

/// The bell that the peer rings when it has made room, or has gone a step with the path of what this end sends.
pub(crate) fn room_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    kept(guard, &guard.endpoint_ref().tx.direction().room, waits)
}

/// Frees a bell of the segment from the borrow of the guard that it was found through.
fn kept<'w>(guard: &Guard<'w>, bell: &Bell, waits: &'w Waits) -> &'w Bell {
    pair::keep(guard, waits);
    // SAFETY: the segment stays mapped while `waits` names its pair.
    unsafe { &*core::ptr::from_ref(bell) }
}

/// Wakes the threads that sleep on a bell, if there are any.
pub(super) fn wake_asleep(bell: &Bell) {
    if bell.look().is_some_and(|listeners| listeners.sleepers) {
        bell.wake();
    }
}

/// Tells the program what a thread of Sovia's has handled for it.
pub(super) fn tell_program(guard: &Guard<'_>) {
    let conn = guard.conn;
    // Spinning threads look at the word.
    conn.news.ring();
    wake_asleep(&conn.news);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread of this end that waits for the connection alone, in whichever direction.
/// `all`: also those of which the bells do not know (any more).
pub(super) fn wake_sleepers(conn: &Conn, endpoint: &endpoint::Endpoint, all: bool) {
    for bell in [&endpoint.rx.direction().bell, &endpoint.tx.direction().room, &conn.news] {
        match all {
            true => bell.wake(),
            false => wake_asleep(bell),
        }
    }
}

/// Wakes every thread of this family that waits for an attached connection, in either direction, and tells the
/// epoll sets and polls that it is in.
pub(crate) fn tell_all(guard: &Guard<'_>) {
    wake_all(guard);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread of this family that waits for an attached connection alone, in either direction.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    let conn = guard.conn;
    wake_sleepers(conn, guard.endpoint_ref(), conn.is_awaited());
}

/// The same for a connection that is leaving its VI, whatever the bells say.
pub(crate) fn tell_of_leaving(guard: &Guard<'_>) {
    wake_sleepers(guard.conn, guard.endpoint_ref(), true);
    pair::notify_own(guard, guard.own.watchers);
}

/// The same for a connection that may have left its VI.
pub(crate) fn tell_own(conn: &Conn) {
    if let Some(guard) = wake_own(conn) {
        pair::notify_own(&guard, guard.own.watchers);
    }
}

/// Wakes every thread of this family that waits for a connection alone, in either direction. The
/// connection's lock, if it has a VI.
pub(crate) fn wake_own(conn: &Conn) -> Option<Guard<'_>> {
    if conn.phase() != Phase::Attached {
        return None;
    }
    let guard = conn.attached()?;
    // By what this end knows itself, whatever the bells say: a waiting thread has been counted before
    // the lock was taken, or will see the news under it.
    wake_all(&guard);
    Some(guard)
}
