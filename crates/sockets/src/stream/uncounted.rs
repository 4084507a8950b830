//! Bytes on TCP that were not counted: a thread was killed between the kernel's call and its count, or a handler has
//! left that call by `longjmp`. The switch to the VI is named by a count of bytes, so the kernel's is taken where ours may be
//! wrong.

use crate::conn::{Conn, flag};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sys::call;

/// Whether the bytes that this end has sent over TCP are counted, where no thread is inside a kernel send.
pub(super) fn is_sent_counted(conn: &Conn, fd: i32) -> bool {
    let count = || call::tcp_bytes_sent(fd, conn.has(flag::CONNECTOR));
    !conn.tx_pins.was_abandoned() || take(&conn.tx_tcp, count())
}

/// Whether the bytes that it has read of TCP are counted, where no thread is inside a kernel receive.
pub(super) fn is_read_counted(conn: &Conn, fd: i32) -> bool {
    !conn.rx_pins.was_abandoned() || count_read(conn, fd)
}

/// Counts the bytes read of TCP anew; false if the kernel cannot say.
pub(super) fn count_read(conn: &Conn, fd: i32) -> bool {
    take(&conn.rx_tcp, call::tcp_bytes_read(fd))
}

#[cold]
fn take(counter: &AtomicU64, kernel: call::Result<u64>) -> bool {
    // A kernel that says fewer counts something else.
    kernel.is_ok_and(|n| n >= counter.fetch_max(n, Ordering::AcqRel))
}
