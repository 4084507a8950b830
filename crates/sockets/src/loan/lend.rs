//! Lends buffers for sending, and sends their bytes. A buffer is a pool slot or private memory.

use super::{Kind, Loan, MAX, give_back};
use crate::conn::{Guard, Phase, flag};
use crate::ops::{self, Flags, keep};
use crate::stream::{self, LendResult, Put};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Errno, Outcome, errno, family};
use core::sync::atomic::Ordering;
use sovia_signal::interrupt::Moment;
use sovia_sys::{UserSlice, call, clock, diag};

/// Lends a buffer of `len` bytes (1 to [`MAX`]). [`commit`] sends the buffer's bytes on `fd`.
///
/// # Errors
/// `EINVAL` if `len` is 0, `EMSGSIZE` if `len` is too large, `EBADF` and `ENOTSOCK` if `fd` is not a socket.
pub fn lend(fd: i32, len: usize) -> Result<Loan, Errno> {
    match len {
        0 => return Err(libc::EINVAL),
        1..=MAX => {}
        _ => return Err(libc::EMSGSIZE),
    }
    if let Some(at) = table::conn(fd)
        && at.conn.phase() == Phase::Attached
        && !at.conn.is_interrupted()
        && !family::is_shared(at.conn)
        && let Some(loan) = lend_here(fd, at, len)
    {
        return Ok(loan);
    }
    Ok(Loan { cookie: diag::cookie(fd).map_err(errno)?, ..Loan::private(len) })
}

/// Longest time in nanoseconds that a sender waits for a pool slot.
const STALL_NS: u64 = 5_000_000;

/// Lends a pool slot of `len` bytes. A sender that is faster than its receiver waits for a slot, because a copy
/// would cost both ends more. Returns `None` if no slot becomes free in `STALL_NS`. Then the next call waits only
/// if the receiver has made progress.
fn lend_here(fd: i32, at: Ref, len: usize) -> Option<Loan> {
    let (conn, since) = (at.conn, Moment::now());
    let attempt = |guard: &mut Guard<'_>| match stream::lend(guard, len as u32) {
        LendResult::Here(memory) => {
            Some(Some(Loan::here(Kind::LendResult, guard, at, memory.as_ptr(), len)))
        }
        LendResult::Nowhere => Some(None),
        LendResult::NotNow(seen) => {
            keep::descriptor(fd, at);
            (conn.has(flag::NONBLOCK) || guard.stalled == seen).then_some(None)
        }
    };
    {
        let mut guard = at.attached()?;
        if let Some(loan) = attempt(&mut guard) {
            return loan;
        }
    }
    let mut call = Call::begin(fd, at, Some(clock::now_ns() + STALL_NS), since);
    let waited = wait::until(&mut call, Want::Send, attempt);
    keep::leave();
    waited.unwrap_or_else(|_| {
        if let Some(mut guard) = at.attached() {
            guard.stalled = stream::lend_progress(&guard);
        }
        None
    })
}

/// Result of an attempt to send a lent pool slot.
enum LentSend {
    Bytes(usize),
    /// The stream's sending path is not the VI any more.
    Plain,
    Failed(Errno),
}

/// Sends the first `n` bytes of a lent buffer as one send, and takes the buffer back. In non-blocking mode, there
/// may be no room for all `n` bytes. Then the buffer stays lent, and a second call with the same `n` continues at
/// the first unsent byte.
///
/// # Errors
/// `EINVAL` if the loan is spent, is too short, or was not lent for sending. `EAGAIN` if bytes are left unsent.
/// Otherwise the errors of `send`, after which the buffer has been taken back.
pub fn commit(fd: i32, loan: &mut Loan, n: usize, flags: Flags) -> Outcome {
    let sendable = matches!(loan.kind, Kind::LendResult | Kind::Private);
    if !sendable || n > loan.len || n < loan.done || !loan.is_ours() {
        return Err(libc::EINVAL);
    }
    let result = commit_rest(fd, loan, n, flags);
    keep::leave();
    match result {
        Ok(()) => {
            give_back(loan);
            Ok(n)
        }
        Err(libc::EAGAIN | libc::EINTR) => result.map(|()| 0),
        Err(e) => {
            give_back(loan);
            Err(e)
        }
    }
}

fn commit_rest(fd: i32, loan: &mut Loan, n: usize, flags: Flags) -> Result<(), Errno> {
    let since = Moment::now();
    let at = table::conn(fd);
    while loan.done < n && loan.cookie == 0 {
        let Some(at) = at else { return Err(libc::EBADF) };
        if at.index != loan.index || !at.conn.is_generation(loan.generation) {
            // The buffer was lent for another connection, which may be closed.
            return Err(libc::EBADF);
        }
        match commit_place(fd, at, loan, n, flags, since)? {
            LentSend::Bytes(sent) => {
                loan.done += sent;
                if loan.done == n {
                    // The pool slot was freed when its last bytes were sent.
                    loan.kind = Kind::Spent;
                }
            }
            // The sending path is TCP by now. The VI's slot in the segment is not reused while the buffer is lent.
            LentSend::Plain => loan.cookie = diag::cookie(fd).map_err(errno)?,
            LentSend::Failed(e) => return Err(e),
        }
    }
    if loan.done < n && diag::cookie(fd).map_err(errno)? != loan.cookie {
        return Err(libc::EBADF);
    }
    while loan.done < n {
        let no_signal = if flags.no_signal { libc::MSG_NOSIGNAL } else { 0 };
        let dont_wait = if flags.dont_wait { libc::MSG_DONTWAIT } else { 0 };
        let rest = loan.rest(n);
        let kernel = || call::send(fd, rest, no_signal | dont_wait).map_err(errno);
        let sent = match at {
            Some(at) => ops::send(fd, at, rest, flags, kernel)?,
            None => kernel()?,
        };
        loan.done += sent;
        if loan.done < n && since.is_not_to_restart() {
            return Err(libc::EINTR);
        }
    }
    Ok(())
}

fn commit_place(
    fd: i32,
    at: Ref,
    loan: &Loan,
    n: usize,
    flags: Flags,
    since: Moment,
) -> Result<LentSend, Errno> {
    let conn = at.conn;
    if conn.is_interrupted() {
        return Err(libc::EINTR);
    }
    let attempt = |guard: &mut Guard<'_>| {
        if !loan.is_current(at) {
            return Some(LentSend::Plain);
        }
        let fd = keep::descriptor(fd, at);
        match stream::commit(guard, fd, loan.rest(n), n) {
            Put::Bytes(sent) => {
                if loan.done + sent == n {
                    conn.loans.fetch_sub(1, Ordering::AcqRel);
                }
                Some(LentSend::Bytes(sent))
            }
            Put::Full => None,
            Put::AskKernel => Some(LentSend::Plain),
            Put::Failed(e) => Some(LentSend::Failed(e)),
        }
    };
    {
        let Some(mut guard) = at.attached() else { return Ok(LentSend::Plain) };
        if let Some(sent) = attempt(&mut guard) {
            return Ok(sent);
        }
    }
    if flags.dont_wait || conn.has(flag::NONBLOCK) {
        return Err(libc::EAGAIN);
    }
    let mut call = Call::begin(fd, at, ops::deadline(&conn.send_timeout), since);
    match wait::until(&mut call, Want::Send, attempt) {
        Ok(sent) => Ok(sent),
        Err(Ended::Plain) => Ok(LentSend::Plain),
        Err(Ended::Failed(e)) => Err(e),
    }
}

impl Loan {
    /// Returns the unsent bytes among the first `n` bytes.
    fn rest(&self, n: usize) -> UserSlice<'_> {
        let n = n.min(self.len);
        let from = self.done.min(n);
        // SAFETY: the loan's memory stays mapped or allocated until the loan is given back. The peer can write to
        // memory in the segment, but no decision here depends on the bytes in this memory.
        unsafe { UserSlice::new(self.memory().add(from), n - from) }
    }
}
