//! Messages that a thread of Sovia's handles (SOVIA_HANDLER and SOVIA_NOTIFY, ICS figure 4).
//!
//! [`crate::handler`] has the threads; this is what they do with one connection. Handling takes
//! messages off the ring, which posts their receives again, and lets acknowledgements take effect. It holds the rest and wakes
//! the program. The program's calls take what is held. They look at the ring themselves in two cases. At the end of a
//! connection, what a peer has left behind is read by the thread that finds that it has gone. And a call that counts bytes
//! (FIONREAD) handles the messages that it counts.
//!
//! The thread belongs to the process that gave the connection its VI. When that process lets the connection go, or dies, or a
//! relative looks for messages, all of them handle messages in their calls (SOVIA_SINGLE).

use super::hold::scan;
use super::{Fault, corrupt_here, listeners, rx, word};
use crate::conn::{Guard, Handler, flag};
use crate::{members, thread};
use sovia_proto::path::Rx;

/// From now on a thread of this process handles messages, of which that ready list is notified. For a connection
/// that is just given its VI. `flags`: those of how it does so.
pub(crate) fn begin(guard: &mut Guard<'_>, ready_list: u32, flags: u32) {
    guard.handler =
        Handler { ready_list: ready_list + 1, process: members::me(), ..Handler::default() };
    guard.conn.set(flags | flag::HANDLED);
    listeners::say(guard);
}

/// Handles what there is, if that is for a thread of this process: a connection that has ended
/// meanwhile may have become a relative's, on a segment that is not mapped here.
pub(crate) fn handle_own(guard: &mut Guard<'_>) {
    if is_own(guard) {
        handle(guard);
    }
}

/// Handles what there is.
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
    // The program may have been sooner with any of it, and want no edge for it. A call that has only looked at the end has
    // taken packets off the ring and nothing else. The end is an event for another thread that waits for a hang-up alone.
    let is_left = guard.held_first != guard.held_end || conn.has(flag::EOF);
    let held = guard.held_end != told.2 && is_left;
    let gathered = tail != told.0 && tail != guard.taker.head;
    let switched = switch != told.1 && conn.rx() != Rx::Vi;
    if let Err(Fault::Corrupt) = scanned {
        corrupt_here(guard);
    } else if !held && !gathered && !switched {
        // Acknowledgements alone are no news to the program: the peer notifies it of room.
        return;
    }
    listeners::tell_program(guard);
}

/// From now on messages are handled by the calling thread.
pub(super) fn end(guard: &mut Guard<'_>) {
    guard.handler = Handler::default();
    guard.conn.clear(flag::HANDLED | flag::NOTIFIED | flag::CALLED);
    listeners::say(guard);
    // There may be something that has not been handled.
    listeners::tell_program(guard);
}

/// Whether a thread of this process handles the messages.
fn is_own(guard: &Guard<'_>) -> bool {
    guard.handler.ready_list().is_some() && guard.handler.process == members::me()
}

/// This process lets the connection go, and others of its family hold it still.
pub(crate) fn leave(guard: &mut Guard<'_>) {
    if is_own(guard) {
        end(guard);
    }
}

/// Returns true if a thread of this process handles messages. A relative that looks for them ends that of another process: whether
/// that one lives, nothing would tell the relative while it sleeps.
#[inline]
pub(super) fn is_here(guard: &mut Guard<'_>) -> bool {
    guard.conn.is_handled() && has_thread(guard)
}

#[cold]
fn has_thread(guard: &mut Guard<'_>) -> bool {
    // Nothing handles messages for the last code of a process that ends.
    if !is_own(guard) || thread::must_end() {
        end(guard);
    }
    guard.conn.is_handled()
}

/// Ends the handling by a process that is no more.
pub(super) fn mind(guard: &mut Guard<'_>) {
    if guard.handler.ready_list().is_some() && !members::lives(guard.handler.process) {
        end(guard);
    }
}
