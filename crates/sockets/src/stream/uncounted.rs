//! Bytes on TCP that were not counted: a thread was killed between the kernel's call and its count, or a handler has
//! left that call by `longjmp`. The switch to the VI is named by a count of bytes, so the kernel's is taken where ours may be
//! wrong.

use crate::conn::{Conn, flag};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sync::presence::Presence;
use sovia_sys::call;

/// Whether the bytes that this end has sent over TCP are counted, where no thread is inside a kernel send.
pub(super) fn sent(conn: &Conn, fd: i32) -> bool {
    let count = || call::tcp_bytes_sent(fd, conn.has(flag::CONNECTOR));
    is_counted(&conn.tx_pins, &conn.tx_tcp, count)
}

/// Whether the bytes that it has read of TCP are counted, where no thread is inside a kernel receive.
pub(super) fn read(conn: &Conn, fd: i32) -> bool {
    is_counted(&conn.rx_pins, &conn.rx_tcp, || call::tcp_bytes_read(fd))
}

#[inline]
fn is_counted(
    pins: &Presence,
    counter: &AtomicU64,
    count: impl FnOnce() -> call::Result<u64>,
) -> bool {
    !pins.was_abandoned() || recount(counter, count)
}

#[cold]
fn recount(counter: &AtomicU64, count: impl FnOnce() -> call::Result<u64>) -> bool {
    // A kernel that says fewer counts something else.
    count().is_ok_and(|n| n >= counter.fetch_max(n, Ordering::AcqRel))
}

/// A thread has been killed under the connection's lock, in the middle of a receive from TCP perhaps.
pub(super) fn repair(conn: &Conn, fd: i32) {
    recount(&conn.rx_tcp, || call::tcp_bytes_read(fd));
}
