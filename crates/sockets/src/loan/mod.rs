//! Buffers that are lent to the program, so that bytes need not be copied.
//!
//! To send, a program is lent a place in the pool, writes its message there and commits it. To
//! receive, it borrows the next message where it lies. Where that cannot be (on TCP, beyond the
//! window, for what several processes share), the buffer is private memory and the bytes are copied,
//! which the program does not notice.
//!
//! A place outlives the call, and may outlive the connection: a VI is not given up before all places
//! of its pools have come back.

mod borrow;
mod lend;

pub use borrow::borrow;
pub use lend::{commit, lend};

use crate::conn::{Guard, INLINE_MAX, PACKET_MAX, Phase};
use crate::pair::lent;
use crate::table::Ref;
use crate::{family, process, stream};
use core::sync::atomic::Ordering;

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
            ..Loan::default()
        }
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
                lent::came_back(at);
            }
        }
    }
}
