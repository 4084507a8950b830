//! Notifies this end's listeners of a connection's events. Listeners are epoll sets and calls of poll, by their ready
//! lists, and threads that wait for this connection alone.
//!
//! If a handler thread takes messages off the ring, the peer notifies only the handler thread of messages. The handler
//! thread queues the messages and then notifies the program. The peer always notifies the program directly of room.

use crate::conn::{Bell, Conn, Guard, HasEndpoint, Phase};
use crate::pair;
use sovia_sync::hazard::Waits;
use via_shm::endpoint;

/// Ready lists that the peer must notify, as bitmaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listeners {
    /// Ready lists for messages.
    pub(super) reader: u32,
    /// Ready lists for room and acknowledgements.
    pub(super) writer: u32,
}

/// Returns the ready lists that the segment should name.
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

/// Returns the ready lists that the segment names.
pub(super) fn found(guard: &Guard<'_>) -> Listeners {
    let endpoint = guard.endpoint_ref();
    Listeners {
        reader: endpoint.rx.direction().bell.watchers(),
        writer: endpoint.tx.direction().room.watchers(),
    }
}

/// Writes into the segment which ready lists the peer must notify.
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

/// Makes the peer notify one of the program's ready lists of events from now on.
pub(crate) fn watch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers |= 1 << (ready_list & 31);
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().bell.watch(ready_list);
    }
    endpoint.tx.direction().room.watch(ready_list);
}

/// Removes a ready list of the program: the peer no longer notifies it.
pub(crate) fn unwatch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers &= !(1 << (ready_list & 31));
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().bell.unwatch(ready_list);
    }
    endpoint.tx.direction().room.unwatch(ready_list);
}

/// Returns the futex word on which a thread sleeps that waits to receive. The peer or the handler thread wakes this
/// thread. The word stays valid as long as `waits`.
pub(crate) fn receive_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    match guard.conn.is_handled() {
        true => &guard.conn.news,
        false => reader_bell(guard, waits),
    }
}

/// Returns the futex word that the peer changes when it has sent bytes or has taken a step between the paths.
pub(crate) fn reader_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    kept(guard, &guard.endpoint_ref().rx.direction().bell, waits)
}

/// Returns the futex word that the peer changes when it has made room. The peer also changes this word after a step
/// with the path of this end's bytes.
pub(crate) fn room_bell<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w Bell {
    kept(guard, &guard.endpoint_ref().tx.direction().room, waits)
}

/// Extends the lifetime of a futex word in the segment from the guard's borrow to `waits`.
fn kept<'w>(guard: &Guard<'w>, bell: &Bell, waits: &'w Waits) -> &'w Bell {
    pair::keep(guard, waits);
    // SAFETY: `pair::keep` has named the pair in `waits`, and the segment stays mapped while `waits` names its pair.
    unsafe { &*core::ptr::from_ref(bell) }
}

/// Wakes the threads that sleep on a futex word, if there are any.
pub(super) fn wake_asleep(bell: &Bell) {
    if bell.look().is_some_and(|listeners| listeners.sleepers) {
        bell.wake();
    }
}

/// Notifies the program of messages that the handler thread has queued.
pub(super) fn tell_program(guard: &Guard<'_>) {
    let conn = guard.conn;
    // Changes the word also for threads that spin on it.
    conn.news.ring();
    wake_asleep(&conn.news);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread of this end that waits for this connection alone, in either direction. `all`: also threads that
/// the futex words do not, or no longer, show as sleeping.
pub(super) fn wake_sleepers(conn: &Conn, endpoint: &endpoint::Endpoint, all: bool) {
    for bell in [&endpoint.rx.direction().bell, &endpoint.tx.direction().room, &conn.news] {
        match all {
            true => bell.wake(),
            false => wake_asleep(bell),
        }
    }
}

/// Wakes every thread of this family that waits for an attached connection, in either direction. Also notifies the
/// epoll sets and poll calls that watch the connection.
pub(crate) fn tell_all(guard: &Guard<'_>) {
    wake_all(guard);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread of this family that waits for an attached connection alone, in either direction.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    let conn = guard.conn;
    wake_sleepers(conn, guard.endpoint_ref(), conn.is_awaited());
}

/// Like [`tell_all`], for a connection that is leaving its VI. Wakes threads even if no futex word shows them as
/// sleeping.
pub(crate) fn tell_of_leaving(guard: &Guard<'_>) {
    wake_sleepers(guard.conn, guard.endpoint_ref(), true);
    pair::notify_own(guard, guard.own.watchers);
}

/// Like [`tell_all`], for a connection that may have left its VI.
pub(crate) fn tell_own(conn: &Conn) {
    if let Some(guard) = wake_own(conn) {
        pair::notify_own(&guard, guard.own.watchers);
    }
}

/// Wakes every thread of this family that waits for a connection alone, in either direction. Returns the connection's
/// lock if the connection has a VI.
pub(crate) fn wake_own(conn: &Conn) -> Option<Guard<'_>> {
    if conn.phase() != Phase::Attached {
        return None;
    }
    let guard = conn.attached()?;
    // Uses this end's own count of waiting threads, whatever the segment says. A waiting thread was counted before this
    // end took the lock, or will see the event under the lock.
    wake_all(&guard);
    Some(guard)
}
