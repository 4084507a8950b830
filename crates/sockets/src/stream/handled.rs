//! Handles messages in a thread of Sovia (SOVIA_HANDLER and SOVIA_NOTIFY, ICS figure 4).
//!
//! [`crate::handler`] has the threads, and this module their work on one connection. The handler thread takes messages
//! off the ring, which posts their receives again, and applies acknowledgements. The thread queues the other messages
//! and wakes the program. The program's calls take queued messages.
//!
//! Calls look at the ring themselves in two cases. At the end of a connection, the thread that finds the peer gone
//! reads what the peer has left. And a call that counts bytes (FIONREAD) queues the messages that it counts.
//!
//! The thread belongs to the process that gave the connection its VI. The thread's work ends if that process closes the
//! connection or dies, or if a forked relative looks for messages. From then on, the calls of all relatives handle
//! messages (SOVIA_SINGLE).

use super::hold::scan;
use super::{Fault, corrupt_here, listeners, rx, word};
use crate::conn::{Guard, Handler, flag};
use crate::{members, thread};
use sovia_proto::path::Rx;

/// Starts handling by a thread of this process, for a connection that has just got its VI. The peer will notify
/// `ready_list` of messages. `flags`: the flags that say how the thread notifies the program.
pub(crate) fn begin(guard: &mut Guard<'_>, ready_list: u32, flags: u32) {
    guard.handler =
        Handler { ready_list: ready_list + 1, process: members::me(), ..Handler::default() };
    guard.conn.set(flags | flag::HANDLED);
    listeners::say(guard);
}

/// Handles available messages if the thread belongs to this process. A connection that has ended may have become a
/// relative's connection, on a segment that is not mapped here.
pub(crate) fn handle_own(guard: &mut Guard<'_>) {
    if is_own(guard) {
        handle(guard);
    }
}

/// Handles available messages.
pub(crate) fn handle(guard: &mut Guard<'_>) {
    let conn = guard.conn;
    if !conn.is_attached() || !conn.is_handled() {
        return;
    }
    let before = guard.held_end;
    let scanned = scan(guard);
    let handled = guard.held_end.wrapping_sub(before);
    guard.traffic.messages_handled += u64::from(handled);
    let direction = rx(guard);
    let (tail, switch) = (direction.writer.load(word::TAIL), direction.path.load(word::SWITCH));
    let now = (tail, switch, guard.held_end);
    let told = core::mem::replace(&mut guard.handler.told, now);
    // The program may already have taken some of these messages, and then wants no edge-triggered event for them. A
    // call that only looked at the end has taken packets off the ring and nothing else. The end is an event for a
    // thread that waits for a hang-up only.
    let is_left = guard.held_first != guard.held_end || conn.has(flag::EOF);
    let held = guard.held_end != told.2 && is_left;
    let gathered = tail != told.0 && tail != guard.taker.head;
    let switched = switch != told.1 && conn.rx() != Rx::Vi;
    if let Err(Fault::Corrupt) = scanned {
        corrupt_here(guard);
    } else if !held && !gathered && !switched {
        // Acknowledgements alone are no event for the program: the peer notifies it of room.
        return;
    }
    listeners::tell_program(guard);
}

/// Ends the handler thread's work on the connection. From now on the program's calls handle messages.
pub(super) fn end(guard: &mut Guard<'_>) {
    guard.handler = Handler::default();
    guard.conn.clear(flag::HANDLED | flag::NOTIFIED | flag::CALLED);
    listeners::say(guard);
    // Some messages may not have been handled.
    listeners::tell_program(guard);
}

/// Returns true if a thread of this process handles the messages.
fn is_own(guard: &Guard<'_>) -> bool {
    guard.handler.ready_list().is_some() && guard.handler.process == members::me()
}

/// Ends the handling by a thread of this process, because this process closes the connection. Forked relatives still
/// have the connection.
pub(crate) fn leave(guard: &mut Guard<'_>) {
    if is_own(guard) {
        end(guard);
    }
}

/// Returns true if a thread of this process handles messages. If the thread belongs to another process, ends the
/// handling: a sleeping relative would not notice the death of that process.
#[inline]
pub(super) fn is_here(guard: &mut Guard<'_>) -> bool {
    guard.conn.is_handled() && has_thread(guard)
}

#[cold]
fn has_thread(guard: &mut Guard<'_>) -> bool {
    // In a process that is ending, no thread handles messages for its last code.
    if !is_own(guard) || thread::must_end() {
        end(guard);
    }
    guard.conn.is_handled()
}

/// Ends the handling by a process that has died.
pub(super) fn mind(guard: &mut Guard<'_>) {
    if guard.handler.ready_list().is_some() && !members::lives(guard.handler.process) {
        end(guard);
    }
}
