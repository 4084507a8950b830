//! A long send on a connection that is not yet accelerated.
//!
//! The kernel would do the whole send in one call, which lasts until the peer has read nearly all bytes. No
//! rendezvous could take place during this call. So this module sends the bytes on TCP in pieces, and a rendezvous
//! may take place between two pieces.

use super::on_tcp::raw_send;
use super::parts::rest_of;
use super::rest::send_slowly;
use super::{CallState, before_send, has_sent};
use crate::conn::Phase;
use crate::ops::keep;
use crate::ops::transfer::Flags;
use crate::table::Ref;
use crate::{Errno, Outcome, errno, wait};
use sovia_signal::interrupt::Moment;
use sovia_sys::poll::{self, PollFd};
use sovia_sys::{UserSlice, call, clock};

/// Number of bytes above which a send is long. Also the size of a piece.
pub(super) const LONG: usize = 256 << 10;
/// Longest wait in nanoseconds before a thread checks that its descriptor still belongs to the connection.
const LOOK_NS: u64 = 50_000_000;

/// Sends all bytes of `parts`, or as many as the kernel's call would send.
pub(super) fn send_long(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
) -> Outcome {
    let conn = at.conn;
    let waits = wait::begin();
    waits.keep(conn.address());
    conn.begin_waiting();
    let mut call = LongSend { fd, at, done: 0, began: clock::now_ns(), begun };
    let sent = call.send(parts, flags);
    conn.end_waiting();
    drop(waits);
    keep::leave();
    // If the connection has a VI by now, or stays on TCP, send the remaining bytes without pieces.
    sent.unwrap_or_else(|| send_slowly(fd, at, parts, flags, call.begun, call.done))
}

struct LongSend {
    fd: i32,
    at: Ref,
    /// Number of bytes sent so far.
    done: usize,
    began: u64,
    begun: CallState,
}

impl LongSend {
    /// Sends all bytes of `parts`, or as many as the kernel's call would send. Returns `None` once the connection
    /// has a VI or stays on TCP for good.
    fn send(&mut self, parts: &[UserSlice<'_>], flags: Flags) -> Option<Outcome> {
        while let Some(rest) = rest_of(parts, self.done) {
            before_send(self.fd, self.at);
            let has_begun = self.begun.has_sent || self.done > 0;
            if has_begun && has_ended(self.of_connection(|fd| poll::probe(fd, libc::POLLOUT))) {
                break;
            }
            let piece = rest.first(rest.len().min(LONG));
            let went_on = match self.send_piece(piece, flags, has_begun)? {
                Ok(n) => {
                    self.done += n;
                    has_sent(self.fd, self.at);
                    Ok(())
                }
                Err(libc::EAGAIN) if !flags.dont_wait => self.wait_for_room(has_begun),
                Err(error) => Err(error),
            };
            match went_on {
                Ok(()) => {}
                Err(_) if has_begun => break,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(self.done))
    }

    /// Sends as many bytes of `piece` as TCP has room for. Returns `None` once the connection has a VI or stays on
    /// TCP for good. `partly` says that the call has already sent bytes.
    fn send_piece(&self, piece: UserSlice<'_>, flags: Flags, partly: bool) -> Option<Outcome> {
        let conn = self.at.conn;
        // Hold the lock. A thread that closes the descriptor waits for the lock, and makes a private descriptor.
        let _lock = conn.lock();
        let is_eligible = conn.phase() == Phase::Eligible && conn.is_generation(self.at.generation);
        is_eligible
            .then(|| raw_send(conn, keep::descriptor(self.fd, self.at), [piece], flags, partly))
    }

    /// Calls `ask` with a descriptor of the connection. If another thread has closed this descriptor meanwhile,
    /// calls `ask` again, because the number may have belonged to another file.
    fn of_connection<T>(&self, ask: impl Fn(i32) -> T) -> T {
        loop {
            let fd = keep::descriptor(self.fd, self.at);
            let answer = ask(fd);
            if keep::descriptor(self.fd, self.at) == fd {
                return answer;
            }
        }
    }

    /// Waits until TCP has room or reports an error.
    fn wait_for_room(&mut self, partly: bool) -> Result<(), Errno> {
        if self.of_connection(call::is_nonblocking) {
            return Err(libc::EAGAIN);
        }
        let timeout = self.of_connection(|fd| call::timeout_ns(fd, libc::SO_SNDTIMEO));
        let until = timeout.ok().filter(|&ns| ns != 0).map(|ns| self.began.saturating_add(ns));
        let left = until.map(|until| until.saturating_sub(clock::now_ns()));
        // Wait only for a short time. At each event the kernel looks the descriptor number up again, and by then
        // the number may belong to another file.
        let pause = left.map_or(LOOK_NS, |left| left.min(LOOK_NS));
        let fd = keep::descriptor(self.fd, self.at);
        let mut one = [PollFd { fd, events: libc::POLLOUT, revents: 0 }];
        let waited = wait::cancellable(|| {
            poll::ppoll_by(|call| self.begun.since.make(call), &mut one, Some(pause), None)
        });
        match waited.map_err(errno) {
            Ok(0) if until.is_some_and(|until| clock::now_ns() >= until) => Err(libc::EAGAIN),
            Ok(_) => Ok(()),
            // Continue, like the kernel, which restarts an interrupted call that has sent nothing.
            Err(libc::EINTR)
                if !partly && until.is_none() && !self.begun.since.is_not_to_restart() =>
            {
                self.begun.since = Moment::now();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns true if the kernel has an error or an end to report. A further piece would consume the report, which
/// must go to the program's next call or poll.
fn has_ended(events: i16) -> bool {
    events & (libc::POLLERR | libc::POLLHUP) != 0
}
