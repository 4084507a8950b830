//! Lends received bytes to the program, in place or as a copy.

use super::{Kind, Loan, MAX, give_back};
use crate::conn::{Guard, INLINE_MAX, Phase, flag};
use crate::ops::{self, Flags, keep};
use crate::stream::{self, BorrowResult, Got};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Errno, errno, family, process};
use sovia_signal::interrupt::Moment;
use sovia_sys::{UserSliceMut, call};

/// Waits for bytes and lends them, in place if possible. The loan is empty at the end of the stream. A loan has at
/// most [`MAX`] bytes.
///
/// # Errors
/// The errors of `recv`.
pub fn borrow(fd: i32, flags: Flags) -> Result<Loan, Errno> {
    let result = borrow_any(fd, flags);
    keep::leave();
    result
}

fn borrow_any(fd: i32, flags: Flags) -> Result<Loan, Errno> {
    let at = table::conn(fd);
    if let Some(at) = at
        && at.conn.phase() == Phase::Attached
        && !family::is_shared(at.conn)
    {
        if at.conn.is_interrupted() {
            return Err(libc::EINTR);
        }
        if let Some(loan) = borrow_here(fd, at, flags)? {
            return Ok(loan);
        }
    }
    let mut loan = Loan::private(MAX);
    let dont_wait = if flags.dont_wait { libc::MSG_DONTWAIT } else { 0 };
    loan.kind = Kind::Received;
    let room = loan.room();
    let kernel = || call::recv(fd, room, dont_wait).map_err(errno);
    let received = match at {
        Some(at) => ops::receive(fd, at, room, flags, kernel),
        None => kernel(),
    };
    match received {
        Ok(n) => {
            loan.len = n;
            Ok(loan)
        }
        Err(e) => {
            give_back(&mut loan);
            Err(e)
        }
    }
}

/// Borrows bytes from the VI, and waits for them if necessary. Returns `None` if the bytes must be copied to
/// private memory.
fn borrow_here(fd: i32, at: Ref, flags: Flags) -> Result<Option<Loan>, Errno> {
    let (conn, since) = (at.conn, Moment::now());
    let attempt = |guard: &mut Guard<'_>| {
        let fd = keep::descriptor(fd, at);
        match stream::borrow(guard, fd) {
            BorrowResult::Here(memory, n) => {
                Some(Ok(Some(Loan::here(Kind::Message, guard, at, memory.as_ptr(), n))))
            }
            BorrowResult::Bulk | BorrowResult::Elsewhere => Some(Ok(None)),
            BorrowResult::Failed(e) => Some(Err(e)),
            BorrowResult::Small => {
                let mut loan = Loan {
                    kind: Kind::Small,
                    owner: process::owner(),
                    len: INLINE_MAX,
                    ..Loan::default()
                };
                match stream::receive(guard, fd, (&mut loan.small).into()) {
                    Got::Bytes(n) => {
                        loan.len = n;
                        Some(Ok(Some(loan)))
                    }
                    Got::End => {
                        loan.len = 0;
                        Some(Ok(Some(loan)))
                    }
                    Got::Failed(e) => Some(Err(e)),
                    Got::Nothing => None,
                }
            }
        }
    };
    {
        match wait::look(at, attempt) {
            Ok(result) => return result,
            Err(Ended::Plain) => return Ok(None),
            Err(Ended::Failed(libc::EAGAIN)) => {}
            Err(Ended::Failed(e)) => return Err(e),
        }
    }
    if flags.dont_wait || conn.has(flag::NONBLOCK) {
        return Err(libc::EAGAIN);
    }
    let mut call = Call::begin(fd, at, ops::deadline(&conn.receive_timeout), since);
    match wait::until(&mut call, Want::Receive, attempt) {
        Ok(result) => result,
        Err(Ended::Plain) => Ok(None),
        Err(Ended::Failed(e)) => Err(e),
    }
}

impl Loan {
    /// Returns the loan's private memory, to receive into.
    fn room(&mut self) -> UserSliceMut<'_> {
        debug_assert!(matches!(self.kind, Kind::Private | Kind::Received));
        // SAFETY: the memory belongs to this loan and has `len` bytes.
        unsafe { UserSliceMut::new(self.memory(), self.len) }
    }
}
