//! Bytes that a relay lends to its program while relatives share the connection.
//!
//! A relative may have to read the bytes that the program leaves unread. So the relay copies bytes to the program, and
//! takes them off the connection only once the program has received them. The first loan has one byte: a program that
//! reads nothing then changes nothing for the relatives. Each further loan is twice as large.
//!
//! A relative may read the bytes of a loan before the relay knows if the program has received them. Then the relay ends
//! the loan. At the end of the stream, relatives wait until the relay has decided whether a process has missed bytes or
//! received them twice.

use super::{PIECE, Socket};
use crate::conn::Guard;
use crate::conn::lent::{NONE, OUT, RETURNED};
use crate::stream::{self, Got, listeners};
use crate::table::Ref;
use crate::{Errno, Outcome, errno};
use core::sync::atomic::Ordering;
use sovia_sys::call;

/// Makes the relay of a connection take only bytes that its program has received.
pub(super) fn begin(at: Ref) {
    at.conn.lent.store(RETURNED, Ordering::Release);
}

/// Bytes that the program has got, and that are still on the connection.
pub(super) struct RelayLoan {
    at: Ref,
    /// Number of the bytes.
    len: usize,
    /// Largest number of bytes of the next loan.
    next: usize,
    /// Position in the stream at the beginning of the loan.
    position: u64,
}

impl RelayLoan {
    pub(super) fn new(at: Ref) -> RelayLoan {
        RelayLoan { at, len: 0, next: 1, position: 0 }
    }

    /// Returns true while the program has not received all bytes of the loan.
    pub(super) fn is_out(&self) -> bool {
        self.len != 0
    }

    /// Copies the next unread bytes to the program. Returns their number, or 0 at the end of the stream. Called if no
    /// bytes are lent.
    ///
    /// # Errors
    /// Those of a receive that does not wait; `EPIPE` if the program receives no more.
    pub(super) fn lend(&mut self, fd: i32, to: &Socket, piece: &mut [u8]) -> Outcome {
        let room = &mut piece[..self.next];
        let Some(mut guard) = self.at.attached() else { return Err(libc::ECONNRESET) };
        let found = outcome(stream::peek(&mut guard, fd, (&mut *room).into()))?;
        if found == 0 {
            return Ok(0);
        }
        self.position = position(&guard);
        self.at.conn.lent.store(OUT, Ordering::Release);
        drop(guard);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let sent = call::send(to.fd.raw(), &room[..found], flags).map_err(errno);
        self.len = sent.unwrap_or(0);
        if !self.is_out() {
            self.end(RETURNED);
        }
        sent
    }

    /// Takes the bytes of the loan off the connection if the program has received them.
    ///
    /// # Errors
    /// `ECONNRESET` if the program has closed its end before it had received all bytes of the loan. Also if a relative
    /// has received bytes of the loan.
    pub(super) fn settle(&mut self, fd: i32, to: &Socket, piece: &mut [u8]) -> Result<(), Errno> {
        if !self.is_out() {
            return Ok(());
        }
        let Some(mut guard) = self.at.attached() else {
            self.end(NONE);
            return Err(libc::ECONNRESET);
        };
        let is_moved = position(&guard) != self.position;
        let is_unread = call::bytes_in_queue(to.fd.raw()) != Ok(0);
        if is_unread && !is_moved {
            return Ok(());
        }
        // The kernel drops the unread bytes of an end that is closed, and reports an error to the other end.
        let error = || call::getsockopt::<i32>(to.fd.raw(), libc::SOL_SOCKET, libc::SO_ERROR);
        if is_unread || to.is_closed() && error() != Ok(0) {
            drop(guard);
            self.end_unread();
            return Err(libc::ECONNRESET);
        }
        while !is_moved && self.is_out() {
            let room = &mut piece[..self.len];
            match stream::receive(&mut guard, fd, room.into()) {
                Got::Bytes(n @ 1..) => self.len -= n,
                _ => break,
            }
        }
        drop(guard);
        let is_taken = !self.is_out();
        self.end(if is_taken { RETURNED } else { NONE });
        self.next = (self.next * 2).min(PIECE);
        if is_taken { Ok(()) } else { Err(libc::ECONNRESET) }
    }

    /// Ends the loan before the program has received all of it. The program may have received a part.
    pub(super) fn end_unread(&mut self) {
        self.end(if self.len > 1 { NONE } else { RETURNED });
    }

    /// Ends the loan, and wakes relatives that wait for that.
    fn end(&mut self, state: u32) {
        self.len = 0;
        self.at.conn.lent.store(state, Ordering::Release);
        if let Some(guard) = self.at.attached() {
            listeners::notify_all(&guard);
        }
    }
}

impl Drop for RelayLoan {
    fn drop(&mut self) {
        if self.is_out() {
            self.end(NONE);
        }
    }
}

/// Returns the number of the connection's bytes that have been received.
fn position(guard: &Guard<'_>) -> u64 {
    let on_tcp = guard.conn.rx_tcp.load(Ordering::Acquire);
    guard.traffic.bytes_received.wrapping_add(guard.past.bytes_received).wrapping_add(on_tcp)
}

fn outcome(got: Got) -> Outcome {
    match got {
        Got::Bytes(n) => Ok(n),
        Got::End => Ok(0),
        Got::Nothing => Err(libc::EAGAIN),
        Got::Failed(error) => Err(error),
    }
}
