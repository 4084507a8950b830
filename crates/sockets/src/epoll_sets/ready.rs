//! Finds the epoll events that hold for a connection.

use crate::Errno;
use crate::conn::{Guard, flag};
use crate::stream;
use crate::stream::state::EVENTS;
use crate::table::{self, Ref};
use sovia_sys::{call, poll};

/// Checks a call of `epoll_ctl` by the kernel's rules for EPOLLEXCLUSIVE. `before` has the entry's earlier events.
pub(super) fn check_exclusive(op: i32, events: u32, before: u32) -> Result<(), Errno> {
    const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
    const ALLOWED: u32 = EXCLUSIVE
        | (libc::EPOLLIN
            | libc::EPOLLOUT
            | libc::EPOLLERR
            | libc::EPOLLHUP
            | libc::EPOLLWAKEUP
            | libc::EPOLLET) as u32;
    let refused = match op {
        libc::EPOLL_CTL_MOD => (events | before) & EXCLUSIVE != 0,
        libc::EPOLL_CTL_ADD => events & EXCLUSIVE != 0 && events & !ALLOWED != 0,
        _ => false,
    };
    if refused { Err(libc::EINVAL) } else { Ok(()) }
}

const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// Returns the events that hold for a connection with a VI, as far as they matter for `interest`.
#[inline]
pub(crate) fn readiness(at: Ref, fd: i32, interest: u32) -> u32 {
    at.attached().map_or(0, |mut guard| readiness_under(&mut guard, at, fd, interest))
}

/// Like [`readiness`], for a caller that holds the connection's lock.
#[inline]
pub(crate) fn readiness_under(guard: &mut Guard<'_>, at: Ref, fd: i32, interest: u32) -> u32 {
    let fd = table::current(fd, at);
    let ended = at.conn.has(EVENTS);
    let mask = moment(guard, fd, interest);
    // Check again if the progress thread has recorded an end meanwhile. All events of the end must be reported
    // together.
    if !ended && at.conn.has(EVENTS) { moment(guard, fd, interest) } else { mask }
}

fn moment(guard: &mut Guard<'_>, fd: i32, interest: u32) -> u32 {
    let mut mask = 0;
    // Check this first, because a connection that has ended is ready for every event.
    if guard.conn.has(EVENTS) {
        // The kernel socket reports ends and errors that the VI does not report.
        mask |= stream::ending::events(guard, fd) as u16 as u32;
    }
    // Only the kernel knows urgent data and bands. Ask the kernel only if the entry wants these events.
    const REST: u32 = (libc::EPOLLPRI | libc::EPOLLRDBAND | libc::EPOLLMSG) as u32;
    if interest & REST != 0 {
        mask |= poll::probe(fd, (interest & REST) as i16) as u16 as u32 & interest & REST;
    }
    const END: u32 = libc::EPOLLRDHUP as u32;
    let has_shut = guard.conn.has(flag::SHUT_WR);
    if (interest & (IN | END) != 0 || has_shut) && stream::readable(guard, fd) {
        if interest & IN != 0 {
            mask |= IN;
        }
        // Check for the end on the VI as well, because the kernel socket's FIN comes a moment after the VI's. The
        // program may also have shut the kernel socket before the connection had a VI.
        if (interest & END != 0 || has_shut)
            && (stream::is_ending(guard) || stream::ending::shows_end(guard, fd))
        {
            let has_ended = has_shut || call::tcp_state(fd).is_some_and(call::TcpState::has_ended);
            mask |= END | if has_ended { libc::EPOLLHUP as u32 } else { 0 };
        }
    }
    if interest & OUT != 0 && stream::writable(guard, fd) {
        mask |= OUT;
    }
    mask
}
