//! Buffers that are lent to the program, so that Sovia need not copy bytes.
//!
//! To send, a program borrows a pool slot, writes a message there and commits the slot. To receive, the program
//! borrows the next message in place. If this is not possible, the buffer is private memory, and Sovia copies the
//! bytes. Bytes are copied on TCP, while the window is used up, and for a connection that several processes share.
//! The program need not know.
//!
//! A lent slot outlives the call that has lent it, and may outlive the connection. A VI's slot in the segment is
//! reused only after all lent slots of its pools have come back.

mod borrow;
mod lend;

pub use borrow::borrow;
pub use lend::{commit, lend};

use crate::conn::{Guard, INLINE_MAX, PACKET_MAX, Phase};
use crate::pair::lent;
use crate::table::Ref;
use crate::{family, process, stream};
use core::sync::atomic::Ordering;

/// Largest number of bytes in a lent buffer.
pub const MAX: usize = PACKET_MAX;

/// Kind of a loan's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// No memory. The loan was given back, was sent, or never had memory.
    Spent = 0,
    /// A pool slot to write into and send from.
    LendResult,
    /// A received message in the pool, to read.
    Message,
    /// Private memory, to write into and send from.
    Private,
    /// Private memory with received bytes, to read.
    Received,
    /// The field `small` of the loan, with received bytes, to read.
    Small,
}

/// A buffer lent to the program. Like a unique pointer, a loan must not be copied.
#[derive(Debug)]
#[repr(C)]
pub struct Loan {
    kind: Kind,
    /// Id of the process to which the buffer was lent.
    owner: i32,
    memory: *mut u8,
    len: usize,
    /// Number of bytes of the buffer that were already sent.
    done: usize,
    index: u32,
    generation: u32,
    /// Cookie of the socket to which the kernel sends the bytes. 0 if the VI sends the bytes.
    cookie: u64,
    small: [u8; INLINE_MAX],
}

// SAFETY: only the loan refers to its memory, and any thread may use this memory. `give_back` takes the
// connection's lock.
unsafe impl Send for Loan {}
// SAFETY: no method writes to the loan's memory through a shared reference.
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
    /// Returns the address of the buffer's bytes, which is valid until the loan moves in memory. Null if the loan
    /// is spent.
    pub fn memory(&self) -> *mut u8 {
        match self.kind {
            Kind::Spent => core::ptr::null_mut(),
            Kind::Small => self.small.as_ptr().cast_mut(),
            _ => self.memory,
        }
    }

    /// Returns the number of bytes in the buffer.
    pub fn len(&self) -> usize {
        if self.kind == Kind::Spent { 0 } else { self.len }
    }

    /// Returns true if the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if the buffer lies in the segment, so that Sovia copies no bytes.
    pub fn is_in_place(&self) -> bool {
        matches!(self.kind, Kind::LendResult | Kind::Message)
    }

    /// Returns true if the bytes lie in the loan itself, so that they move with the loan.
    pub fn is_small(&self) -> bool {
        self.kind == Kind::Small
    }

    /// Returns true if the buffer was lent to this process. Returns false if the buffer was lent to the parent
    /// before a fork.
    pub fn is_ours(&self) -> bool {
        self.owner == process::owner()
    }

    /// Returns true if the buffer has been sent or given back.
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

    /// Returns true if the connection still has the VI to which the lent pool slot belongs. Call it under the
    /// connection's lock.
    fn is_current(&self, at: Ref) -> bool {
        let conn = at.conn;
        conn.is_generation(self.generation)
            && conn.phase() == Phase::Attached
            && conn.loans.load(Ordering::Acquire) != 0
    }
}

/// Returns the loan's connection, even if the connection's generation has ended.
fn lender(loan: &Loan) -> Option<Ref> {
    let conn = family::conn(loan.index)?;
    Some(Ref { index: loan.index, generation: loan.generation, conn })
}

/// Takes back a buffer that the program has read, or that the program does not want to send. Any thread may call
/// it. Does nothing for a spent loan.
pub fn give_back(loan: &mut Loan) {
    match core::mem::replace(&mut loan.kind, Kind::Spent) {
        Kind::Spent | Kind::Small => {}
        kind @ (Kind::Private | Kind::Received) => {
            let len = if kind == Kind::Private { loan.len } else { MAX };
            let memory = core::ptr::slice_from_raw_parts_mut(loan.memory, len);
            // SAFETY: `Loan::private` made the memory from a box of this length. A buffer for receiving always has
            // `MAX` bytes.
            drop(unsafe { Box::from_raw(memory) });
        }
        kind @ (Kind::LendResult | Kind::Message) => {
            if !loan.is_ours() {
                // In a forked child the loan is a copy, and the pool slot belongs to the parent's loan.
                return;
            }
            let Some(at) = lender(loan) else { return };
            if let Some(mut guard) = at.attached().filter(|_| loan.is_current(at)) {
                at.conn.loans.fetch_sub(1, Ordering::AcqRel);
                match kind {
                    Kind::LendResult => stream::take_back(&mut guard),
                    _ => stream::give_back(&mut guard),
                }
            } else {
                lent::came_back(at);
            }
        }
    }
}
