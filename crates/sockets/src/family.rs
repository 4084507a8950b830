//! Connections of a family of processes: one that was exec'ed, and all that it forked.
//!
//! Forked processes share their sockets, so what Sovia knows of a socket must be shared as well:
//! it lies in a mapping made at start, at the same address in each of them, out of the reach of
//! any peer. A slot is taken by setting its bit; the generation tells a slot's lives apart.

use crate::conn::Conn;
use crate::members::{self, Members, is_known, my_bit};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::Mapping;

/// Connections that one family can have on record; more stay on TCP unrecorded.
pub const CONNS: usize = 1 << 15;
const WORDS: usize = CONNS / 64;

#[repr(C, align(4096))]
struct Family {
    used: [AtomicU64; WORDS],
    /// Where the search for a free slot begins.
    hint: AtomicU32,
    members: Members,
}

static FAMILY: AtomicPtr<Family> = AtomicPtr::new(core::ptr::null_mut());

const CONNS_AT: usize = size_of::<Family>();

/// Maps the family's memory. Without it nothing is accelerated.
pub fn start() {
    let len = CONNS_AT + CONNS * size_of::<Conn>();
    if let Ok(mapping) = Mapping::for_family(len) {
        FAMILY.store(mapping.base().cast(), Ordering::Release);
        // It lasts as long as the process.
        core::mem::forget(mapping);
        if let Some(family) = family() {
            members::start(&family.members);
        }
    }
}

fn family() -> Option<&'static Family> {
    // SAFETY: null, or the mapping that `start` made, zeroed (which is a valid Family) and never
    // unmapped.
    unsafe { FAMILY.load(Ordering::Acquire).as_ref() }
}

/// The slot with that number.
#[inline]
pub fn conn(index: u32) -> Option<&'static Conn> {
    let base = FAMILY.load(Ordering::Relaxed);
    if base.is_null() || index as usize >= CONNS {
        return None;
    }
    // SAFETY: the index lies in the mapping that follows the header; all-zero bytes are a valid
    // Conn; it is never unmapped.
    Some(unsafe { &*base.byte_add(CONNS_AT).cast::<Conn>().add(index as usize) })
}

/// Takes a free slot.
pub fn take() -> Option<(u32, &'static Conn)> {
    let family = family()?;
    search(family).or_else(|| {
        sweep(family);
        search(family)
    })
}

/// Frees the slots of connections whose every holder was killed.
#[cold]
fn sweep(family: &Family) {
    for index in 0..CONNS as u32 {
        let used = family.used[index as usize / 64].load(Ordering::Acquire) >> (index % 64) & 1;
        if used != 0
            && let Some(conn) = conn(index)
            // One without any holder is being opened just now.
            && let holders = conn.holders.load(Ordering::Acquire)
            && holders != 0
            && holders & my_bit() == 0
            && !is_shared(conn)
        {
            conn.end();
            give_back(index);
        }
    }
}

fn search(family: &'static Family) -> Option<(u32, &'static Conn)> {
    let start = family.hint.load(Ordering::Relaxed) as usize;
    for step in 0..WORDS {
        let w = (start + step) % WORDS;
        let word = &family.used[w];
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = (!bits).trailing_zeros();
            match word.compare_exchange_weak(
                bits,
                bits | 1 << bit,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    family.hint.store(w as u32, Ordering::Relaxed);
                    let index = w as u32 * 64 + bit;
                    return Some((index, conn(index)?));
                }
                Err(now) => bits = now,
            }
        }
    }
    None
}

/// Gives a slot back. Its generation must have been changed before.
pub fn give_back(index: u32) {
    if let Some(family) = family() {
        let w = index as usize / 64;
        family.used[w].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
        family.hint.fetch_min(w as u32, Ordering::Relaxed);
    }
}

/// This process holds a connection no more.
pub fn let_go(conn: &Conn) {
    if is_known() {
        conn.holders.fetch_and(!my_bit(), Ordering::AcqRel);
    }
}

/// Before fork: a place for the child; its bit.
pub fn expect_child() -> u64 {
    let (Some(family), Some(child)) = (family(), members::expect()) else { return 0 };
    if child.is_known {
        // What its last owner held, it holds no more.
        for (w, word) in family.used.iter().enumerate() {
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let index = w as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(conn) = conn(index) {
                    conn.holders.fetch_and(!child.bit, Ordering::AcqRel);
                }
            }
        }
    }
    child.bit
}

/// Whether living processes other than this one hold a connection. Strikes the dead ones out.
pub fn is_shared(conn: &Conn) -> bool {
    !is_known() || members::others_live(&conn.holders)
}
