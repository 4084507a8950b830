//! Handles a connection's messages in a thread of Sovia, the handler thread (SOVIA_HANDLER and SOVIA_NOTIFY, ICS
//! figure 4).
//!
//! [`crate::handler`] runs the handler threads. This module does a handler thread's work on one connection. The
//! handler thread takes messages off the ring, applies acknowledgements, queues the other messages and wakes the
//! program. The program's calls take messages from the queue.
//!
//! In two cases, the program's calls queue messages themselves. A call that finds that the peer has gone queues the
//! peer's last messages. A call that counts unread bytes (FIONREAD) queues the messages that it counts.
//!
//! The handler thread belongs to the process that gave the connection its VI. Its work on the connection ends if
//! that process closes the connection or dies, or if a forked relative looks for messages. After that, the
//! program's calls take messages off the ring (SOVIA_SINGLE).

use super::hold::scan;
use super::{Fault, corrupt_here, listeners, rx, word};
use crate::conn::{Guard, Handler, flag};
use crate::{process_slots, thread};
use sovia_proto::path::Rx;

/// Assigns a connection that has just got its VI to the handler thread of this process with ready list
/// `ready_list`. `flags` are the connection flags that say how the handler thread notifies the program.
pub(crate) fn begin(guard: &mut Guard<'_>, ready_list: u32, flags: u32) {
    guard.handler =
        Handler { ready_list: ready_list + 1, process: process_slots::me(), ..Handler::default() };
    guard.conn.set(flags | flag::HAS_HANDLER);
    listeners::publish(guard);
}

/// Like [`handle`], but does nothing if the handler thread belongs to another process. A connection that has ended
/// may have become a forked relative's new connection, in the same slot. The new connection's segment is not mapped
/// in this process.
pub(crate) fn handle_own(guard: &mut Guard<'_>) {
    if is_own(guard) {
        handle(guard);
    }
}

/// Queues the messages that have arrived, and notifies the program. Does nothing if the connection has no handler
/// thread.
pub(crate) fn handle(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if !conn.is_attached() || !conn.has_handler() {
        return;
    }
    let before = guard.held_end;
    let scanned = scan(guard);
    let queued = guard.held_end.wrapping_sub(before);
    guard.traffic.messages_handled += u64::from(queued);
    let direction = rx(guard);
    let (tail, switch) = (direction.writer.load(word::TAIL), direction.path.load(word::SWITCH));
    let now = (tail, switch, guard.held_end);
    let last_look = core::mem::replace(&mut guard.handler.last_look, now);
    // Notifies the program only if a queued message is still unread: for other messages, an edge-triggered event
    // would be wrong. The end of the stream (EOF) is also an event, for threads that wait only for a hang-up.
    let is_left = guard.held_first != guard.held_end || conn.has(flag::EOF);
    let held = guard.held_end != last_look.2 && is_left;
    let coalesced = tail != last_look.0 && tail != guard.taker.head;
    let switched = switch != last_look.1 && conn.rx() != Rx::Vi;
    if let Err(Fault::Corrupt) = scanned {
        corrupt_here(guard);
    } else if !held && !coalesced && !switched {
        // Only acknowledgements have arrived. The handler thread need not notify the program, because the peer
        // notifies the program of room.
        return;
    }
    listeners::notify_program(guard);
}

/// Ends the handler thread's work on the connection. After this, the program's calls take messages off the ring.
pub(super) fn end(guard: &mut Guard<'_>) {
    guard.handler = Handler::default();
    guard.conn.clear(flag::HAS_HANDLER | flag::NOTIFIED | flag::CALLED);
    listeners::publish(guard);
    // Wakes the program, because the ring may have messages that were not queued.
    listeners::notify_program(guard);
}

/// Returns true if the connection's handler thread belongs to this process.
fn is_own(guard: &Guard<'_>) -> bool {
    guard.handler.ready_list().is_some() && guard.handler.process == process_slots::me()
}

/// Ends the handler thread's work on the connection if the thread belongs to this process. Called when this process
/// closes the connection and forked relatives keep it.
pub(crate) fn leave(guard: &mut Guard<'_>) {
    if is_own(guard) {
        end(guard);
    }
}

/// Returns true if a handler thread of this process takes messages off the ring. If the handler thread belongs to
/// another process, ends the thread's work on the connection: this process would not notice that process's death.
#[inline]
pub(super) fn is_here(guard: &mut Guard<'_>) -> bool {
    guard.conn.has_handler() && has_thread(guard)
}

#[cold]
fn has_thread(guard: &mut Guard<'_>) -> bool {
    // In a process that is ending, no handler thread runs any more, but code of the program may still make calls.
    if !is_own(guard) || thread::must_end() {
        end(guard);
    }
    guard.conn.has_handler()
}

/// Ends the handler thread's work on the connection if the thread's process has died.
pub(super) fn mind(guard: &mut Guard<'_>) {
    if guard.handler.ready_list().is_some() && !process_slots::lives(guard.handler.process) {
        end(guard);
    }
}
