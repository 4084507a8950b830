//! Corrects this end's counts of bytes on TCP. A count is too low if a thread was killed after a system call and
//! before it counted the bytes. The same happens if a signal handler left the call by `longjmp`. The position of a
//! switch to the VI is a number of bytes on TCP. So a count that may be too low is replaced by the kernel's count.

use crate::conn::{Conn, flag};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sys::call;

/// Corrects the count of bytes that this end has sent on TCP, if it may be too low. Returns true if the count is
/// right now. The caller makes sure that no thread is inside a kernel send.
pub(super) fn is_sent_counted(conn: &Conn, fd: i32) -> bool {
    let count = || call::tcp_bytes_sent(fd, conn.has(flag::CONNECTOR));
    !conn.tx_pins.was_abandoned() || take(&conn.tx_tcp, count())
}

/// Corrects the count of bytes that this end has read from TCP, if it may be too low. Returns true if the count is
/// right now. The caller makes sure that no thread is inside a kernel receive.
pub(super) fn is_read_counted(conn: &Conn, fd: i32) -> bool {
    !conn.rx_pins.was_abandoned() || count_read(conn, fd)
}

/// Replaces the count of bytes read from TCP by the kernel's count. Returns false if the kernel's count cannot be
/// used.
pub(super) fn count_read(conn: &Conn, fd: i32) -> bool {
    take(&conn.rx_tcp, call::tcp_bytes_read(fd))
}

#[cold]
fn take(counter: &AtomicU64, kernel: call::Result<u64>) -> bool {
    // The kernel's count is unusable if it is smaller than this end's count, which is never too high.
    kernel.is_ok_and(|n| n >= counter.fetch_max(n, Ordering::AcqRel))
}
