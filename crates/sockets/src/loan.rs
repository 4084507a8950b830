//! Buffers that are lent to the program, so that bytes need not be copied.
//!
//! To send, a program is lent a place in the pool, writes its message there and commits it. To
//! receive, it borrows the next message where it lies. Where that cannot be (on TCP, beyond the
//! window, for what several processes share), the buffer is private memory and the bytes are copied,
//! which the program does not notice.
//!
//! A place outlives the call, and may outlive the connection: a VI is not given up before all places
//! of its pools have come back.

use crate::conn::{Guard, INLINE_MAX, PACKET_MAX, Phase, flag};
use crate::ops::{self, Flags, keep};
use crate::pair::lent;
use crate::stream::{self, Find, Got, Place, Put};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, Want};
use crate::{Errno, Outcome, errno, family, process};
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock, diag};

/// Bytes that one buffer may have.
pub const MAX: usize = PACKET_MAX;

/// What a loan's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// None: given back, sent, or never had.
    Spent = 0,
    /// A place in the pool to write into.
    Place,
    /// A message in the pool.
    Message,
    /// Memory of this library's, to send from.
    Private,
    /// Memory of this library's, received into.
    Received,
    /// The loan itself.
    Small,
}

/// A buffer that is lent. It is as good as a pointer: not to be copied.
#[derive(Debug)]
#[repr(C)]
pub struct Loan {
    kind: Kind,
    /// The process that it was lent to.
    owner: i32,
    memory: *mut u8,
    len: usize,
    /// Bytes that have been sent already.
    done: usize,
    index: u32,
    generation: u32,
    pair: u32,
    vi: u32,
    /// The socket that it is to be sent to, where that goes by the kernel; else 0.
    cookie: u64,
    small: [u8; INLINE_MAX],
}

// SAFETY: a loan owns what it points to, which any thread may use; the connection's lock is taken
// to give it back.
unsafe impl Send for Loan {}
// SAFETY: through a shared reference bytes are read only.
unsafe impl Sync for Loan {}

impl Default for Loan {
    fn default() -> Loan {
        Loan {
            kind: Kind::Spent,
            owner: 0,
            memory: core::ptr::null_mut(),
            len: 0,
            done: 0,
            index: 0,
            generation: 0,
            pair: 0,
            vi: 0,
            cookie: 0,
            small: [0; INLINE_MAX],
        }
    }
}

impl Loan {
    /// Where its bytes are, which stays while it is not moved; null if it is spent.
    pub fn memory(&self) -> *mut u8 {
        match self.kind {
            Kind::Spent => core::ptr::null_mut(),
            Kind::Small => self.small.as_ptr().cast_mut(),
            _ => self.memory,
        }
    }

    /// Bytes that it has.
    pub fn len(&self) -> usize {
        if self.kind == Kind::Spent { 0 } else { self.len }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it lies in the segment, where nothing needs to be copied.
    pub fn is_in_place(&self) -> bool {
        matches!(self.kind, Kind::Place | Kind::Message)
    }

    /// Whether its bytes lie in the loan itself.
    pub fn is_small(&self) -> bool {
        self.kind == Kind::Small
    }

    /// Whether it was lent to this process, and not to one that it was forked from.
    pub fn is_ours(&self) -> bool {
        self.owner == process::owner()
    }

    /// Whether it has been sent or given back.
    pub fn is_spent(&self) -> bool {
        self.kind == Kind::Spent
    }

    fn private(len: usize) -> Loan {
        let memory = Box::into_raw(vec![0u8; len].into_boxed_slice());
        Loan {
            kind: Kind::Private,
            owner: process::owner(),
            memory: memory.cast(),
            len,
            ..Loan::default()
        }
    }

    fn here(kind: Kind, guard: &Guard<'_>, at: Ref, memory: *mut u8, len: usize) -> Loan {
        let conn = guard.conn;
        conn.loans.fetch_add(1, Ordering::AcqRel);
        Loan {
            kind,
            owner: process::owner(),
            memory,
            len,
            index: at.index,
            generation: at.generation,
            pair: conn.pair.load(Ordering::Relaxed),
            vi: conn.vi.load(Ordering::Relaxed),
            ..Loan::default()
        }
    }

    /// Bytes not sent yet of the first `n`.
    fn rest(&self, n: usize) -> &[u8] {
        let n = n.min(self.len);
        let from = self.done.min(n);
        // SAFETY: the loan's memory, which is mapped or allocated until it is given back, and from
        // which this only reads. What lies in the segment the peer could write to: these are bytes
        // for it, and nothing is decided by them.
        unsafe { core::slice::from_raw_parts(self.memory().add(from), n - from) }
    }

    /// The private memory of a loan, to receive into.
    fn room(&mut self) -> &mut [u8] {
        debug_assert!(matches!(self.kind, Kind::Private | Kind::Received));
        // SAFETY: the loan's own memory, `len` bytes long.
        unsafe { core::slice::from_raw_parts_mut(self.memory(), self.len) }
    }

    /// Whether the connection still has the VI in whose pool the loan lies. Under its lock.
    fn is_current(&self, at: Ref) -> bool {
        let conn = at.conn;
        conn.is_generation(self.generation)
            && conn.phase() == Phase::Attached
            && conn.loans.load(Ordering::Acquire) != 0
    }
}

/// The connection that a loan is of, whatever has become of it.
fn lender(loan: &Loan) -> Option<Ref> {
    let conn = family::conn(loan.index)?;
    Some(Ref { index: loan.index, generation: loan.generation, conn })
}

/// Lends a buffer of `len` bytes (1 to [`MAX`]), to be sent to `fd` with [`commit`].
///
/// # Errors
/// `EINVAL` for no bytes, `EMSGSIZE` for too many, `EBADF` and `ENOTSOCK` for what is no socket.
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

/// How long a sender waits for a place while its receiver does nothing.
const STALL_NS: u64 = 5_000_000;

/// A place in the pool. A sender that is faster than its receiver waits for one: a copy would cost both
/// of them more. But it waits once only for a receiver that does something else.
fn lend_here(fd: i32, at: Ref, len: usize) -> Option<Loan> {
    let conn = at.conn;
    let attempt = |guard: &mut Guard<'_>| match stream::lend(guard, len as u32) {
        Place::Here(memory) => Some(Some(Loan::here(Kind::Place, guard, at, memory.as_ptr(), len))),
        Place::Nowhere => Some(None),
        Place::NotNow(seen) => {
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
    let mut call = Call::begin(fd, at, Some(clock::now_ns() + STALL_NS));
    let waited = wait::until(&mut call, Want::Send, attempt);
    keep::leave();
    waited.unwrap_or_else(|_| {
        if let Some(mut guard) = at.attached() {
            guard.stalled = stream::lend_progress(&guard);
        }
        None
    })
}

/// What became of an attempt to send from a place.
enum Sent {
    Bytes(usize),
    /// The stream is not on the VI.
    Plain,
    Failed(Errno),
}

/// Sends the first `n` bytes of a lent buffer as one send, and takes the buffer back. In
/// non-blocking mode, if there is not room for all of them, the buffer stays lent, and the same call
/// goes on where this one stopped.
///
/// # Errors
/// `EINVAL` for a buffer that is spent, was not lent to be sent, or has fewer bytes; `EAGAIN`: see above;
/// what `send` would say, and then the buffer is taken back.
pub fn commit(fd: i32, loan: &mut Loan, n: usize, flags: Flags) -> Outcome {
    let sendable = matches!(loan.kind, Kind::Place | Kind::Private);
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
    let at = table::conn(fd);
    while loan.done < n && loan.cookie == 0 {
        let Some(at) = at else { return Err(libc::EBADF) };
        if at.index != loan.index || !at.conn.is_generation(loan.generation) {
            // Lent by another stream, which is closed, or is still there.
            return Err(libc::EBADF);
        }
        match commit_place(fd, at, loan, n, flags)? {
            Sent::Bytes(sent) => {
                loan.done += sent;
                if loan.done == n {
                    // Its place went with the last bytes.
                    loan.kind = Kind::Spent;
                }
            }
            // The stream has left the VI, which is not given up under the buffer.
            Sent::Plain => loan.cookie = diag::cookie(fd).map_err(errno)?,
            Sent::Failed(e) => return Err(e),
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
            Some(at) => ops::send(fd, at, &[rest], flags, kernel)?,
            None => kernel()?,
        };
        loan.done += sent;
    }
    Ok(())
}

fn commit_place(fd: i32, at: Ref, loan: &Loan, n: usize, flags: Flags) -> Result<Sent, Errno> {
    let conn = at.conn;
    if conn.is_interrupted() {
        return Err(libc::EINTR);
    }
    let attempt = |guard: &mut Guard<'_>| {
        if !loan.is_current(at) {
            return Some(Sent::Plain);
        }
        let fd = keep::descriptor(fd, at);
        match stream::commit(guard, fd, loan.rest(n), n) {
            Put::Bytes(sent) => {
                if loan.done + sent == n {
                    conn.loans.fetch_sub(1, Ordering::AcqRel);
                }
                Some(Sent::Bytes(sent))
            }
            Put::Full => None,
            Put::AskKernel => Some(Sent::Plain),
            Put::Failed(e) => Some(Sent::Failed(e)),
        }
    };
    {
        let Some(mut guard) = at.attached() else { return Ok(Sent::Plain) };
        if let Some(sent) = attempt(&mut guard) {
            return Ok(sent);
        }
    }
    if flags.dont_wait || conn.has(flag::NONBLOCK) {
        return Err(libc::EAGAIN);
    }
    let mut call = Call::begin(fd, at, ops::deadline(&conn.send_timeout));
    match wait::until(&mut call, Want::Send, attempt) {
        Ok(sent) => Ok(sent),
        Err(Ended::Plain) => Ok(Sent::Plain),
        Err(Ended::Failed(e)) => Err(e),
    }
}

/// Waits for bytes, and lends them where they lie; 0 at the end of the stream. How many there are is
/// not known before: at most [`MAX`].
///
/// # Errors
/// What `recv` would say.
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
    let memory = room.as_mut_ptr();
    let kernel = || {
        // SAFETY: the room of the loan, for a call that is made instead of the engine's own.
        let room = unsafe { core::slice::from_raw_parts_mut(memory, MAX) };
        call::recv(fd, room, dont_wait).map_err(errno)
    };
    let received = match at {
        Some(at) => ops::receive(fd, at, &mut [room], flags, kernel),
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

/// `None` if the VI is not where to look.
fn borrow_here(fd: i32, at: Ref, flags: Flags) -> Result<Option<Loan>, Errno> {
    let conn = at.conn;
    let attempt = |guard: &mut Guard<'_>| {
        let fd = keep::descriptor(fd, at);
        match stream::borrow(guard, fd) {
            Find::Here(memory, n) => {
                Some(Ok(Some(Loan::here(Kind::Message, guard, at, memory.as_ptr(), n))))
            }
            Find::Bulk | Find::Elsewhere => Some(Ok(None)),
            Find::Failed(e) => Some(Err(e)),
            Find::Small => {
                let mut loan = Loan {
                    kind: Kind::Small,
                    owner: process::owner(),
                    len: INLINE_MAX,
                    ..Loan::default()
                };
                match stream::receive(guard, fd, &mut loan.small) {
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
    let mut call = Call::begin(fd, at, ops::deadline(&conn.receive_timeout));
    match wait::until(&mut call, Want::Receive, attempt) {
        Ok(result) => result,
        Err(Ended::Plain) => Ok(None),
        Err(Ended::Failed(e)) => Err(e),
    }
}

/// Takes a buffer back, read or unsent. Any thread may; nothing happens to one that is spent.
pub fn give_back(loan: &mut Loan) {
    match core::mem::replace(&mut loan.kind, Kind::Spent) {
        Kind::Spent | Kind::Small => {}
        kind @ (Kind::Private | Kind::Received) => {
            let len = if kind == Kind::Private { loan.len } else { MAX };
            let memory = core::ptr::slice_from_raw_parts_mut(loan.memory, len);
            // SAFETY: `Loan::private` made it of a box of that length; what is received into is as
            // long as any.
            drop(unsafe { Box::from_raw(memory) });
        }
        kind @ (Kind::Place | Kind::Message) => {
            if !loan.is_ours() {
                // A forked child's copy: the place is its parent's.
                return;
            }
            let Some(at) = lender(loan) else { return };
            if let Some(mut guard) = at.attached().filter(|_| loan.is_current(at)) {
                at.conn.loans.fetch_sub(1, Ordering::AcqRel);
                match kind {
                    Kind::Place => stream::take_back(&mut guard),
                    _ => stream::give_back(&mut guard),
                }
            } else {
                lent::came_back(loan.pair, loan.vi);
            }
        }
    }
}
