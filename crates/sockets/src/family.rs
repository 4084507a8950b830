//! Connections of a family of processes: one that was exec'ed, and all that it forked.
//!
//! Forked processes share their sockets, so what Sovia knows of a socket must be shared as well:
//! it lies in a mapping made at start, at the same address in each of them, out of the reach of
//! any peer. A slot is taken by setting its bit; the generation tells a slot's lives apart.

use crate::conn::Conn;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_sys::{Mapping, call};

/// Connections that one family can have on record; more stay on TCP unrecorded.
pub const CONNS: usize = 1 << 15;
const WORDS: usize = CONNS / 64;

#[repr(C, align(4096))]
struct Family {
    used: [AtomicU64; WORDS],
    /// Where the search for a free slot begins.
    hint: AtomicU32,
    /// The family's processes; 0 for a free place.
    members: [AtomicI32; MEMBERS],
}

/// Processes that a family can tell apart. More share the last place, which never empties: what
/// one of those holds, another may hold as well, so it is never the last, and the end of the
/// kernel's socket tells the peer what it cannot. What it opens itself stays on TCP.
pub(crate) const MEMBERS: usize = 64;
const SHARED: usize = MEMBERS - 1;
/// A place taken for a child that fork is about to make.
const EXPECTED: i32 = -1;
/// This process's place.
static PLACE: AtomicU32 = AtomicU32::new(0);
/// The place of the child that is being forked.
static NEXT: AtomicU32 = AtomicU32::new(0);

static FAMILY: AtomicPtr<Family> = AtomicPtr::new(core::ptr::null_mut());

const CONNS_AT: usize = size_of::<Family>();

/// Maps the family's memory. Without it nothing is accelerated.
pub fn start() {
    let len = CONNS_AT + CONNS * size_of::<Conn>();
    if let Ok(mapping) = Mapping::for_family(len) {
        FAMILY.store(mapping.base().cast(), Ordering::Release);
        join();
        // It lasts as long as the process.
        core::mem::forget(mapping);
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

/// The bit of this process among a connection's holders.
pub fn my_bit() -> u64 {
    1 << place()
}

/// This process's place.
#[inline]
pub(crate) fn place() -> usize {
    PLACE.load(Ordering::Relaxed) as usize % MEMBERS
}

/// Whether this process can be told apart from all others of the family.
pub fn is_known() -> bool {
    place() != SHARED
}

/// This process holds a connection no more.
pub fn let_go(conn: &Conn) {
    if is_known() {
        conn.holders.fetch_and(!my_bit(), Ordering::AcqRel);
    }
}

/// Says that this process lives, and holds what its bit says.
pub fn join() {
    if let Some(family) = family() {
        let place = place();
        family.members[place].store(call::getpid(), Ordering::Release);
    }
}

/// Says that this process holds nothing any more, before its image is replaced.
pub fn leave() {
    if let Some(family) = family() {
        let place = place();
        if place != SHARED {
            family.members[place].store(0, Ordering::Release);
        }
    }
}

/// Whether a process of the family is at that place.
pub(crate) fn lives(place: usize) -> bool {
    family().is_some_and(|family| is_alive(family, place % MEMBERS))
}

fn is_alive(family: &Family, place: usize) -> bool {
    match family.members[place].load(Ordering::Acquire) {
        0 => false,
        EXPECTED => true,
        pid => place == SHARED || call::task_exists(pid),
    }
}

/// Before fork: a place for the child; its bit.
pub fn expect_child() -> u64 {
    let Some(family) = family() else { return 0 };
    let free = (0..SHARED).find(|&place| {
        let seen = family.members[place].load(Ordering::Acquire);
        !is_alive(family, place)
            && family.members[place]
                .compare_exchange(seen, EXPECTED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    });
    let place = free.unwrap_or(SHARED);
    if free.is_some() {
        // What its last owner held, it holds no more.
        for (w, word) in family.used.iter().enumerate() {
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let index = w as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(conn) = conn(index) {
                    conn.holders.fetch_and(!(1 << place), Ordering::AcqRel);
                }
            }
        }
    }
    if place == SHARED {
        // Not empty even before the child runs.
        family.members[SHARED].store(EXPECTED, Ordering::Release);
    }
    NEXT.store(place as u32, Ordering::Relaxed);
    1 << place
}

/// Fork has failed: nobody will come to that place.
pub fn expect_nobody() {
    let place = NEXT.load(Ordering::Relaxed) as usize % MEMBERS;
    if let Some(family) = family()
        && place != SHARED
    {
        let _ = family.members[place].compare_exchange(
            EXPECTED,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}

/// Another process takes this one's place.
pub fn pass_on(heir: i32) {
    if let Some(family) = family() {
        let place = place();
        family.members[place].store(heir, Ordering::Release);
    }
}

/// In the child.
pub fn born() {
    PLACE.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    join();
}

/// Whether living processes other than this one hold a connection. Strikes the dead ones out.
pub fn is_shared(conn: &Conn) -> bool {
    if !is_known() {
        return true;
    }
    let others = conn.holders.load(Ordering::Acquire) & !my_bit();
    if others == 0 {
        return false;
    }
    let Some(family) = family() else { return false };
    let mut left = others;
    let mut alive = false;
    while left != 0 {
        let place = left.trailing_zeros() as usize;
        left &= left - 1;
        if is_alive(family, place) {
            alive = true;
        } else {
            conn.holders.fetch_and(!(1 << place), Ordering::AcqRel);
        }
    }
    alive
}
