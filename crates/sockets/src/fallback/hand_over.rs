//! The helper processes that a fallback may need, and the handover of a connection to a relay.

use super::detach;
use crate::conn::{Conn, Guard, flag};
use crate::per_engine::per_engine;
use crate::stats;
use crate::stream::{self, Got};
use crate::table::{self, Ref};
use core::sync::atomic::Ordering;
use sovia_control::Reason;
use sovia_sync::{critical_section, thread};
use sovia_sys::{Fd, call};
use std::sync::OnceLock;

/// Makes the calling thread the one that hands the connection over to a relay. Returns false if another living
/// thread hands the connection over. Called under the connection's lock.
pub(super) fn hands_over(conn: &Conn) -> bool {
    let other = conn.relaying.load(Ordering::Acquire);
    let me = thread::thread_id() as u32;
    let may = other == 0 || other == me || !call::task_exists(other as i32);
    if may {
        conn.relaying.store(me, Ordering::Release);
        conn.set(flag::FALLING_BACK);
    }
    may
}

/// Replaces the program's descriptors by a socket to a relay.
pub(super) fn hand_over(fd: i32, at: Ref) {
    // From here on, no signal handler of the program runs. So none can leave this function by `longjmp`.
    let _inside = critical_section::inside();
    {
        let Some(_guard) = at.attached() else { return };
        let is_ours = at.conn.relaying.load(Ordering::Acquire) == thread::thread_id() as u32;
        if !is_ours || !table::refers(fd, at) {
            // Another thread hands the connection over, or the descriptor has been closed and may belong to another
            // connection now.
            return;
        }
    }
    let is_relayed = PROCESSES.get().is_some_and(|processes| (processes.relay)(fd, at));
    if is_relayed {
        at.conn.stays(Reason::Relayed);
        stats::reason(Reason::Relayed);
    } else {
        // No relay could be started, so bytes that the kernel or the VI has accepted are lost. Shut down the socket
        // to make the loss visible to the program.
        let _ = call::shutdown(fd, libc::SHUT_RDWR);
        at.conn.relaying.store(0, Ordering::Release);
        detach(fd, at);
    }
}

/// Functions that start the helper processes of a fallback. A function with a result returns false if a process
/// cannot start.
pub(crate) struct Processes {
    /// Replaces every descriptor of a connection by a socket to a relay.
    pub relay: fn(i32, Ref) -> bool,
    /// Holds connections until they are back on TCP, while this process executes another program.
    pub accompany: fn(&[(i32, Ref)]) -> bool,
}

per_engine! {
    pub(super) static PROCESSES: OnceLock<Processes> = OnceLock::new();
}

/// Sets the functions that start helper processes, because these functions belong to modules of higher layers.
/// Called once, when the engine starts.
pub(crate) fn helped_by(processes: Processes) {
    let _ = PROCESSES.set(processes);
}

/// Moves the connection's next unread bytes into a Unix socket that replaces the connection. The program may have been
/// notified of these bytes, so they must be in the socket at once. `fd` is a descriptor of the connection. Returns the
/// number of the bytes.
pub(crate) fn put_unread(socket: &Fd, guard: &mut Guard<'_>, fd: i32) -> usize {
    let mut all = 0;
    if !guard.conn.rx_pins.is_empty() {
        // A thread is in the kernel's receive. The next bytes on TCP belong to this thread's call.
        return all;
    }
    let mut piece = vec![0u8; 64 << 10];
    // Peek only if bytes are unread. At the end of the stream, a peek would take the error that the program must
    // get.
    while stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && let Got::Bytes(n @ 1..) = stream::peek(guard, fd, (&mut piece[..]).into())
    {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let put = call::send(socket.raw(), &piece[..n], flags).unwrap_or(0);
        all += put;
        let mut left = put;
        while left > 0
            && let Got::Bytes(taken @ 1..) = stream::receive(guard, fd, (&mut piece[..left]).into())
        {
            left -= taken;
        }
        if put < n {
            break;
        }
    }
    all
}

/// Replaces a connection's descriptors by a Unix socket with the unread bytes of the stream. The calling process is a
/// child of `vfork`, which runs on its parent's memory and can start no relay. It executes a program without the
/// library. The peer has finished. No process reads the other end of the Unix socket, so the program cannot write to
/// it. The program gets `ECONNRESET` after the last byte, unless all bytes have gone to the socket and the stream has
/// ended.
pub(super) fn give_unread(descriptors: impl Iterator<Item = i32>, at: Ref) {
    let pair = Fd::pair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    let (Ok((ours, theirs)), Some(mut guard)) = (pair, at.attached()) else { return };
    let _ = call::setsockopt(ours.raw(), libc::SOL_SOCKET, libc::SO_SNDBUF, &(64 << 20));
    let mut descriptors = descriptors.peekable();
    let Some(&fd) = descriptors.peek() else { return };
    // Set the flag first: from the first byte on, the stream must not look complete to relatives.
    let was_relayed = guard.conn.has(flag::RELAYED);
    guard.conn.set(flag::RELAYED);
    let given = put_unread(&ours, &mut guard, fd);
    // Without the flag, a peek finds the end of the stream.
    guard.conn.clear(flag::RELAYED);
    let next = stream::peek(&mut guard, fd, (&mut [0u8][..]).into());
    if given > 0 || was_relayed {
        guard.conn.set(flag::RELAYED);
    }
    if let Got::Failed(error) = next {
        // Relatives must get the error, too.
        guard.conn.keep_error(error);
    }
    if next != Got::End {
        fail_after_last_byte(&theirs);
    }
    for fd in descriptors {
        let _ = call::dup_onto(theirs.raw(), fd);
    }
}

/// Makes a Unix socket report `ECONNRESET` after its last byte: the kernel does so if the other end closes with bytes
/// unread.
fn fail_after_last_byte(socket: &Fd) {
    let _ = call::write(socket.raw(), &[0]);
}

/// Replaces a connection's descriptors by a socket that reports `ECONNRESET`. Called if this process or its next
/// program must not use the connection. Other processes still may.
pub(crate) fn replace_by_error(descriptors: impl Iterator<Item = i32>) {
    let pair = Fd::pair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    let Ok((ours, theirs)) = pair else { return };
    fail_after_last_byte(&theirs);
    drop(ours);
    for fd in descriptors {
        let _ = call::dup_onto(theirs.raw(), fd);
    }
}
