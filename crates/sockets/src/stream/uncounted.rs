//! Corrects the counts of bytes on TCP. If a thread is killed between the kernel's call and the count, its bytes stay
//! uncounted. So do the bytes of a call that a signal handler leaves by `longjmp`. A count of bytes names the position
//! of the switch to the VI. So if this end's count may be wrong, the kernel's count replaces it.

use crate::conn::{Conn, flag};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sys::call;

/// Returns true if the count of bytes that this end has sent over TCP is right. The caller makes sure that no thread is
/// inside a kernel send.
pub(super) fn is_sent_counted(conn: &Conn, fd: i32) -> bool {
    let count = || call::tcp_bytes_sent(fd, conn.has(flag::CONNECTOR));
    !conn.tx_pins.was_abandoned() || take(&conn.tx_tcp, count())
}

/// Returns true if the count of bytes that this end has read from TCP is right. The caller makes sure that no thread is
/// inside a kernel receive.
pub(super) fn is_read_counted(conn: &Conn, fd: i32) -> bool {
    !conn.rx_pins.was_abandoned() || count_read(conn, fd)
}

/// Takes the kernel's count of bytes read from TCP. Returns false if the kernel gives no usable count.
pub(super) fn count_read(conn: &Conn, fd: i32) -> bool {
    take(&conn.rx_tcp, call::tcp_bytes_read(fd))
}

#[cold]
fn take(counter: &AtomicU64, kernel: call::Result<u64>) -> bool {
    // A smaller number means that the kernel counts something else.
    kernel.is_ok_and(|n| n >= counter.fetch_max(n, Ordering::AcqRel))
}
