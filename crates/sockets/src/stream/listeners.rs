//! Notifies the listeners at this end of a connection's events. Listeners are threads that wait for this connection
//! alone, and epoll sets and poll calls, which have ready lists.
//!
//! If the connection has a handler thread, the peer notifies only this thread of messages. The handler thread
//! queues the messages and then notifies the program. The peer always notifies the program directly when it has
//! made room.

use crate::conn::{Conn, Guard, HasEndpoint, Phase, WakeWord};
use crate::{kernel_sockets, pair};
use sovia_ring::endpoint;
use sovia_sync::hazard::Waits;

/// Bitmaps of the ready lists that the peer must notify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listeners {
    /// Ready lists that the peer notifies when it has sent a message.
    pub(super) reader: u32,
    /// Ready lists that the peer notifies when it has made room or has acknowledged packets.
    pub(super) writer: u32,
}

/// Returns the ready lists that the segment should name, from this end's private data.
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

/// Returns the ready lists that the segment names at present.
pub(super) fn found(guard: &Guard<'_>) -> Listeners {
    let endpoint = guard.endpoint_ref();
    Listeners {
        reader: endpoint.rx.direction().wake_word.watchers(),
        writer: endpoint.tx.direction().room.watchers(),
    }
}

/// Writes into the segment which ready lists the peer must notify.
pub(super) fn publish(guard: &Guard<'_>) {
    let Listeners { reader, writer } = of(guard);
    let endpoint = guard.endpoint_ref();
    for (wake_word, listeners) in
        [(&endpoint.rx.direction().wake_word, reader), (&endpoint.tx.direction().room, writer)]
    {
        for ready_list in 0..u32::BITS {
            let (is, shall) = (wake_word.watchers() >> ready_list & 1, listeners >> ready_list & 1);
            match (is, shall) {
                (0, 1) => wake_word.watch(ready_list),
                (1, 0) => wake_word.unwatch(ready_list),
                _ => {}
            }
        }
    }
}

/// Makes the peer notify `ready_list`, a ready list of the program, of the connection's events.
pub(crate) fn watch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers |= 1 << (ready_list & 31);
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().wake_word.watch(ready_list);
    }
    endpoint.tx.direction().room.watch(ready_list);
    // The peer reports bytes on TCP only to threads that wait for one connection.
    kernel_sockets::watch_at_once(guard.conn);
}

/// Makes the peer stop notifying `ready_list`, a ready list of the program.
pub(crate) fn unwatch(guard: &mut Guard<'_>, ready_list: u32) {
    guard.own.watchers &= !(1 << (ready_list & 31));
    let endpoint = guard.endpoint_ref();
    if guard.handler.ready_list().is_none() {
        endpoint.rx.direction().wake_word.unwatch(ready_list);
    }
    endpoint.tx.direction().room.unwatch(ready_list);
}

/// Returns the futex word on which a thread sleeps until it can receive. The handler thread changes this word if
/// there is one, otherwise the peer does.
pub(crate) fn receive_wake_word<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w WakeWord {
    match guard.conn.has_handler() {
        true => &guard.conn.handler_wake_word,
        false => reader_wake_word(guard, waits),
    }
}

/// Returns the futex word that the peer changes when it has sent bytes, or has changed the path of its bytes.
pub(crate) fn reader_wake_word<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w WakeWord {
    kept(guard, &guard.endpoint_ref().rx.direction().wake_word, waits)
}

/// Returns the futex word that the peer changes when it has made room, or has granted, entered or revoked the VI.
pub(crate) fn room_wake_word<'w>(guard: &Guard<'w>, waits: &'w Waits) -> &'w WakeWord {
    kept(guard, &guard.endpoint_ref().tx.direction().room, waits)
}

/// Extends the lifetime of a futex word in the segment from the guard's borrow to `waits`.
fn kept<'w>(guard: &Guard<'w>, wake_word: &WakeWord, waits: &'w Waits) -> &'w WakeWord {
    pair::keep(guard, waits);
    // SAFETY: `pair::keep` has registered the segment's pair in `waits`, and the segment stays mapped while its
    // pair is registered there. The returned reference lives no longer than `waits`.
    unsafe { &*core::ptr::from_ref(wake_word) }
}

/// Wakes the threads that sleep on a futex word, if the word shows that any thread sleeps.
pub(super) fn wake_asleep(wake_word: &WakeWord) {
    if wake_word.look().is_some_and(|listeners| listeners.sleepers) {
        wake_word.wake();
    }
}

/// Notifies the program of messages that the handler thread has queued.
pub(super) fn notify_program(guard: &Guard<'_>) {
    let conn = guard.conn;
    // Changes the word even if no thread sleeps, for threads that spin on the word.
    conn.handler_wake_word.ring();
    wake_asleep(&conn.handler_wake_word);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread at this end that waits for this connection alone, to receive or to send. If `all` is true,
/// also wakes threads that the futex words do not show as sleeping.
pub(super) fn wake_sleepers(conn: &Conn, endpoint: &endpoint::Endpoint, all: bool) {
    for wake_word in
        [&endpoint.rx.direction().wake_word, &endpoint.tx.direction().room, &conn.handler_wake_word]
    {
        match all {
            true => wake_word.wake(),
            false => wake_asleep(wake_word),
        }
    }
}

/// Wakes every thread of this family that waits for an attached connection, to receive or to send. Also notifies
/// the epoll sets and poll calls that watch the connection.
pub(crate) fn notify_all(guard: &Guard<'_>) {
    wake_all(guard);
    pair::notify_own(guard, guard.own.watchers);
}

/// Wakes every thread of this family that waits for one attached connection alone, to receive or to send.
pub(crate) fn wake_all(guard: &Guard<'_>) {
    let conn = guard.conn;
    wake_sleepers(conn, guard.endpoint_ref(), conn.is_awaited());
}

/// Like [`notify_all`], for a connection that is leaving its VI. Also wakes threads that the futex words do not show
/// as sleeping.
pub(crate) fn notify_of_leaving(guard: &Guard<'_>) {
    wake_sleepers(guard.conn, guard.endpoint_ref(), true);
    pair::notify_own(guard, guard.own.watchers);
}

/// Like [`notify_all`], but takes the connection's lock. Does nothing if the connection has left its VI.
pub(crate) fn notify_own(conn: &Conn) {
    if let Some(guard) = wake_own(conn) {
        pair::notify_own(&guard, guard.own.watchers);
    }
}

/// Wakes every thread of this family that waits for `conn` alone, to receive or to send. Returns the connection's
/// lock, or `None` if the connection has no VI.
pub(crate) fn wake_own(conn: &Conn) -> Option<Guard<'_>> {
    if conn.phase() != Phase::Attached {
        return None;
    }
    let guard = conn.attached()?;
    // `wake_all` uses the family's count of waiting threads, and does not rely on the segment. A thread that is not
    // counted yet takes the lock before it sleeps, and finds the event then.
    wake_all(&guard);
    Some(guard)
}
