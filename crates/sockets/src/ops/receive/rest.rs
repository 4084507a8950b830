//! Receives bytes from the keeper of a connection ([`crate::rest`]).

use crate::ops::Flags;
use crate::ops::transfer::keep_error;
use crate::rest::end_of;
use crate::table::Ref;
use crate::{Outcome, errno};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{UserSliceMut, call};

/// Time in nanoseconds that a non-blocking call waits for the keeper to write.
const FEEDING_NS: u64 = 20_000_000;

/// Receives bytes from the keeper, which come before the bytes in the kernel socket. Returns `None` if the keeper
/// has no bytes. `fd` is the program's descriptor.
pub(super) fn receive(
    fd: i32,
    at: Ref,
    parts: &[UserSliceMut<'_>],
    flags: Flags,
) -> Option<Outcome> {
    at.conn.rest.find()?;
    receive_from_keeper(fd, at, parts, flags)
}

#[cold]
#[inline(never)]
fn receive_from_keeper(
    fd: i32,
    at: Ref,
    parts: &[UserSliceMut<'_>],
    flags: Flags,
) -> Option<Outcome> {
    let mut done = 0;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let mut filled = 0;
        while filled < part.len() {
            // The call may wait for its first byte, and with MSG_WAITALL for every byte.
            let waits = done == 0 || flags.wait_all;
            match receive_some(fd, at, part.skip(filled), flags, waits) {
                Some(Ok(n)) if flags.peek => return Some(Ok(n)),
                Some(Ok(n)) => (filled, done) = (filled + n, done + n),
                Some(Err(error)) if done > 0 => {
                    // Store an error for the next call, because the keeper's socket reports an error only once.
                    if !matches!(error, libc::EAGAIN | libc::EINTR) {
                        keep_error(at.conn, error);
                    }
                    return Some(Ok(done));
                }
                None if done > 0 => return Some(Ok(done)),
                ended => return ended,
            }
        }
    }
    (done > 0).then_some(Ok(done))
}

/// Receives once from the keeper's socket. Waits if the keeper has not written to the socket yet.
fn receive_some(
    fd: i32,
    at: Ref,
    part: UserSliceMut<'_>,
    flags: Flags,
    waits: bool,
) -> Option<Outcome> {
    let peeks = if flags.peek { libc::MSG_PEEK } else { 0 };
    let waits = waits && !flags.dont_wait && !call::is_nonblocking(fd);
    let mut has_waited = false;
    loop {
        let end = match end_of(at.conn) {
            Ok(end) => end?,
            Err(e) => return Some(Err(e)),
        };
        match call::recv(end.raw(), part, libc::MSG_DONTWAIT | peeks) {
            // The keeper's bytes have ended. The kernel socket has the next bytes.
            Ok(0) => return None,
            // Wait a short time even in a non-blocking call. The keeper has bytes, and is about to write them to
            // its socket. The program may already have got its last notification of these bytes. After EAGAIN the
            // program would wait for ever.
            Err(call::Errno::EAGAIN) if waits || !has_waited => {
                let mut fds = [PollFd { fd: end.raw(), events: libc::POLLIN, revents: 0 }];
                if let Err(e) = ppoll(&mut fds, (!waits).then_some(FEEDING_NS), None) {
                    return Some(Err(errno(e)));
                }
                has_waited = true;
            }
            result => return Some(result.map_err(errno)),
        }
    }
}
