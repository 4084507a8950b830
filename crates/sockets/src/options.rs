//! Socket options that decide if a connection may be on a VI.
//!
//! The kernel socket keeps every option. Most options do not affect how bytes travel, or a VI can apply them. The
//! kernel can apply all other options only to bytes on TCP. If the program sets an option that this file does not
//! name, the connection moves to TCP. If an option was set earlier, on the socket or its listener, it is checked
//! only if `HARMLESS` lists it.

use crate::conn::{Conn, flag};
use core::sync::atomic::Ordering;
use sovia_sys::call;

const SO_BUSY_POLL: i32 = 46;
const SO_MAX_PACING_RATE: i32 = 47;
const SO_INCOMING_CPU: i32 = 49;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
pub(crate) const SO_BUF_LOCK: i32 = 72;
const SO_RESERVE_MEM: i32 = 73;
const SO_TXREHASH: i32 = 74;
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_TIMESTAMPING_NEW: i32 = 65;
const TCP_FASTOPEN_KEY: i32 = 33;
const TCP_FASTOPEN_NO_COOKIE: i32 = 34;
/// TCP_INQ is also the type of the control message that `recvmsg` returns.
pub const TCP_INQ: i32 = 36;
const TCP_TX_DELAY: i32 = 37;

/// Returns true if a connection may be on a VI with any value of the option `name`.
fn is_unrelated_to_bytes(level: i32, name: i32) -> bool {
    match level {
        // A VI applies this option: see `Conn::reports_times`.
        _ if reports_times(level, name) => true,
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_DEBUG
                | libc::SO_REUSEADDR
                | libc::SO_REUSEPORT
                | libc::SO_DONTROUTE
                | libc::SO_BROADCAST
                | libc::SO_SNDBUF
                | libc::SO_RCVBUF
                | libc::SO_SNDBUFFORCE
                | libc::SO_RCVBUFFORCE
                | libc::SO_KEEPALIVE
                | libc::SO_OOBINLINE
                | libc::SO_NO_CHECK
                | libc::SO_PRIORITY
                | libc::SO_LINGER
                | libc::SO_RCVTIMEO
                | libc::SO_SNDTIMEO
                | libc::SO_BINDTODEVICE
                | libc::SO_DETACH_FILTER
                | libc::SO_MARK
                | libc::SO_LOCK_FILTER
                | libc::SO_ZEROCOPY
                | SO_BUSY_POLL
                | SO_INCOMING_CPU
                | SO_PREFER_BUSY_POLL
                | SO_BUSY_POLL_BUDGET
                | SO_BUF_LOCK
                | SO_RESERVE_MEM
                | SO_TXREHASH
        ),
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_NODELAY
                | libc::TCP_MAXSEG
                | libc::TCP_CORK
                | libc::TCP_KEEPIDLE
                | libc::TCP_KEEPINTVL
                | libc::TCP_KEEPCNT
                | libc::TCP_SYNCNT
                | libc::TCP_LINGER2
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_WINDOW_CLAMP
                | libc::TCP_QUICKACK
                | libc::TCP_CONGESTION
                | libc::TCP_THIN_LINEAR_TIMEOUTS
                | libc::TCP_THIN_DUPACK
                | libc::TCP_FASTOPEN
                | libc::TCP_FASTOPEN_CONNECT
                | TCP_FASTOPEN_KEY
                | TCP_FASTOPEN_NO_COOKIE
                | libc::TCP_NOTSENT_LOWAT
                | libc::TCP_SAVE_SYN
                // A VI applies this option: see `flag::UNTIL_FULL`.
                | libc::TCP_USER_TIMEOUT
                // A VI applies this option: see `flag::REPORTS_UNREAD`.
                | TCP_INQ
        ),
        libc::IPPROTO_IP | libc::IPPROTO_IPV6 => true,
        _ => false,
    }
}

/// Returns true if a socket with this option counts as new, because the option makes no difference to a VI.
pub fn leaves_fresh(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => {
            matches!(name, libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_KEEPALIVE)
        }
        libc::IPPROTO_TCP => matches!(
            name,
            libc::TCP_NODELAY
                | libc::TCP_QUICKACK
                | libc::TCP_KEEPIDLE
                | libc::TCP_KEEPINTVL
                | libc::TCP_KEEPCNT
                | libc::TCP_DEFER_ACCEPT
                | libc::TCP_FASTOPEN
        ),
        libc::IPPROTO_IPV6 => name == libc::IPV6_V6ONLY,
        _ => false,
    }
}

/// Options with the values that allow a VI. The kernel is asked for the values, because a connection may have got
/// an option from its listener or before an exec.
const HARMLESS: &[(i32, i32, &[i32])] = &[
    // SO_RCVLOWAT: only the kernel can apply a minimum number of bytes for readiness. A socket accepted by an MPTCP
    // listener begins with 0, which means 1.
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, &[0, 1]),
    (libc::SOL_SOCKET, libc::SO_PEEK_OFF, &[-1]),
    // SO_TIMESTAMPING: poll reports the times at which bytes were sent.
    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &[0]),
    (libc::SOL_SOCKET, SO_TIMESTAMPING_NEW, &[0]),
    // SO_MAX_PACING_RATE: limits the rate at which bytes are sent.
    (libc::SOL_SOCKET, SO_MAX_PACING_RATE, &[-1]),
    (libc::IPPROTO_TCP, TCP_TX_DELAY, &[0]),
    // TCP_REPAIR: set while a tool moves the socket to or from another kernel.
    (libc::IPPROTO_TCP, libc::TCP_REPAIR, &[0]),
];

/// Returns true if the socket's option has one of `values`, or if this kernel does not have the option.
fn has(fd: i32, &(level, name, values): &(i32, i32, &[i32])) -> bool {
    call::getsockopt::<i32>(fd, level, name).map_or(true, |has| values.contains(&has))
}

/// Returns true if the connection must be on TCP after the program has set the option `name`.
pub fn wants_kernel(fd: i32, level: i32, name: i32) -> bool {
    if is_unrelated_to_bytes(level, name) {
        return false;
    }
    let known = HARMLESS.iter().find(|option| (option.0, option.1) == (level, name));
    known.is_none_or(|option| !has(fd, option))
}

/// Returns true if no option of the socket keeps the connection on TCP.
pub(crate) fn allow_vi(fd: i32) -> bool {
    HARMLESS.iter().all(|option| has(fd, option)) && !call::has_filter(fd)
}

/// Records in `conn` if TCP_USER_TIMEOUT is set. Returns the timeout in milliseconds; 0 if there is none.
pub(crate) fn note_user_timeout(fd: i32, conn: &Conn) -> u32 {
    let timeout = call::getsockopt::<u32>(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
    let timeout = timeout.unwrap_or(0);
    if timeout == 0 {
        conn.clear(flag::UNTIL_FULL);
    } else {
        conn.set(flag::UNTIL_FULL);
    }
    timeout
}

/// Returns true if the option `name` makes `recvmsg` report arrival times.
pub(crate) fn reports_times(level: i32, name: i32) -> bool {
    level == libc::SOL_SOCKET && TIMES.contains(&name)
}

const TIMES: [i32; 4] =
    [libc::SO_TIMESTAMP, libc::SO_TIMESTAMPNS, SO_TIMESTAMP_NEW, SO_TIMESTAMPNS_NEW];

/// Records in `conn` if `recvmsg` must report arrival times.
pub(crate) fn note_times(fd: i32, conn: &Conn) {
    let is_set =
        |&name: &i32| call::getsockopt::<i32>(fd, libc::SOL_SOCKET, name).unwrap_or(0) != 0;
    conn.reports_times.store(u32::from(TIMES.iter().any(is_set)), Ordering::Relaxed);
}

/// Returns true if the option `name` limits the number of unsent or unread bytes.
pub(crate) fn bounds(level: i32, name: i32) -> bool {
    match level {
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_SNDBUF
                | libc::SO_RCVBUF
                | libc::SO_SNDBUFFORCE
                | libc::SO_RCVBUFFORCE
                | SO_BUF_LOCK
        ),
        libc::IPPROTO_TCP => name == libc::TCP_NOTSENT_LOWAT,
        _ => false,
    }
}

/// Records in `conn` the limits of unsent and unread bytes, if the program has set them (SO_BUF_LOCK, since Linux
/// 5.14).
pub(crate) fn note_bounds(fd: i32, conn: &Conn) {
    const SENDS: u32 = 1;
    const RECEIVES: u32 = 2;
    let get = |level, name| call::getsockopt::<u32>(fd, level, name).unwrap_or(0);
    let set = get(libc::SOL_SOCKET, SO_BUF_LOCK);
    let size = |which, name| if set & which != 0 { get(libc::SOL_SOCKET, name) } else { 0 };
    // 0 and u32::MAX mean the host's default. By default there is no limit unless the host's administrator has set
    // one.
    let unsent = match get(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) {
        u32::MAX => 0,
        unsent => unsent,
    };
    let sends = size(SENDS, libc::SO_SNDBUF);
    let sends = if sends == 0 || unsent != 0 && unsent < sends { unsent } else { sends };
    conn.sends_ahead.store(sends, Ordering::Relaxed);
    // Halve the size, because the kernel uses half of the buffer for its own data.
    conn.holds.store(size(RECEIVES, libc::SO_RCVBUF) / 2, Ordering::Relaxed);
}

/// Records in `conn` if `recvmsg` must report the number of bytes left unread.
pub(crate) fn note_inq(fd: i32, conn: &Conn) {
    if call::getsockopt::<i32>(fd, libc::IPPROTO_TCP, TCP_INQ).unwrap_or(0) == 0 {
        conn.clear(flag::REPORTS_UNREAD);
    } else {
        conn.set(flag::REPORTS_UNREAD);
    }
}
