//! A long send on a connection that is not yet accelerated.
//!
//! The kernel would execute the send in one call, which lasts until the peer has read nearly all bytes. No rendezvous
//! could take place during this call. So the send goes to TCP in pieces, and a rendezvous may take place between two
//! pieces.

use super::on_tcp::raw_send;
use super::parts::rest_of;
use super::rest::send_slowly;
use super::{Begun, before_send};
use crate::conn::Phase;
use crate::ops::keep;
use crate::ops::transfer::Flags;
use crate::table::{self, Ref};
use crate::{Errno, Outcome, errno, meeting, wait};
use sovia_signal::interrupt::Moment;
use sovia_sys::poll::{self, PollFd};
use sovia_sys::{UserSlice, call, clock};

/// Number of bytes above which a send is long. Also the size of a piece.
pub(super) const LONG: usize = 256 << 10;
/// Time in nanoseconds after which a waiting thread checks that the descriptor still belongs to the connection.
const LOOK_NS: u64 = 50_000_000;

/// Sends all of `parts`, or as many bytes as the kernel's call would send.
pub(super) fn send_long(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: Begun,
) -> Outcome {
    let conn = at.conn;
    let waits = wait::begin();
    waits.keep(conn.place());
    conn.begin_waiting();
    let mut call = Call { fd, at, done: 0, began: clock::now_ns(), begun };
    let sent = call.send(parts, flags);
    conn.end_waiting();
    drop(waits);
    keep::leave();
    // The connection now has a VI, or stays on TCP.
    sent.unwrap_or_else(|| send_slowly(fd, at, parts, flags, call.begun, call.done))
}

struct Call {
    fd: i32,
    at: Ref,
    /// Number of bytes sent so far.
    done: usize,
    began: u64,
    begun: Begun,
}

impl Call {
    /// Sends all bytes, or as many as the kernel's call would send. Returns `None` once the connection has a VI or
    /// stays on TCP for good.
    fn send(&mut self, parts: &[UserSlice<'_>], flags: Flags) -> Option<Outcome> {
        while let Some(rest) = rest_of(parts, self.done) {
            if table::refers(self.fd, self.at) {
                before_send(self.fd, self.at);
            }
            let has_begun = self.begun.has_sent || self.done > 0;
            if has_begun && has_ended(self.of_connection(|fd| poll::probe(fd, libc::POLLOUT))) {
                break;
            }
            let piece = rest.first(rest.len().min(LONG));
            let went_on = match self.send_piece(piece, flags, has_begun)? {
                Ok(n) => {
                    self.done += n;
                    meeting::sent(self.at);
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

    /// Gives TCP as much of a piece as it has room for. Returns `None` once the connection has a VI or stays on TCP for
    /// good. `partly`: the call has already sent bytes.
    fn send_piece(&self, piece: UserSlice<'_>, flags: Flags, partly: bool) -> Option<Outcome> {
        let conn = self.at.conn;
        // A thread that closes the descriptor meanwhile waits for this lock, and keeps a private descriptor open.
        let _lock = conn.lock();
        let is_candidate =
            conn.phase() == Phase::Candidate && conn.is_generation(self.at.generation);
        is_candidate
            .then(|| raw_send(conn, keep::descriptor(self.fd, self.at), [piece], flags, partly))
    }

    /// Calls `ask` with a descriptor of the connection. Calls `ask` again if another thread has closed the number
    /// meanwhile: the number may then belong to another file.
    fn of_connection<T>(&self, ask: impl Fn(i32) -> T) -> T {
        loop {
            let fd = keep::descriptor(self.fd, self.at);
            let said = ask(fd);
            if keep::descriptor(self.fd, self.at) == fd {
                return said;
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
        // The kernel resolves the number again at each event. By then the number may belong to another file.
        let pause = left.map_or(LOOK_NS, |left| left.min(LOOK_NS));
        let fd = keep::descriptor(self.fd, self.at);
        let mut one = [PollFd { fd, events: libc::POLLOUT, revents: 0 }];
        let waited = wait::cancellable(|| {
            poll::ppoll_by(|call| self.begun.since.make(call), &mut one, Some(pause), None)
        });
        match waited.map_err(errno) {
            Ok(0) if until.is_some_and(|until| clock::now_ns() >= until) => Err(libc::EAGAIN),
            Ok(_) => Ok(()),
            // The kernel restarts a call that has sent nothing.
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

/// Returns true if the kernel has an error or an end to report. The next piece would consume the report, which belongs
/// to the program's next call or poll.
fn has_ended(events: i16) -> bool {
    events & (libc::POLLERR | libc::POLLHUP) != 0
}
