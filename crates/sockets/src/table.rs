//! Which descriptors are Sovia's business.
//!
//! One word for each descriptor number: what it is, and an index. A look-up is one load; a
//! descriptor without an entry goes to libc untouched.

use crate::conn::{Conn, Phase, Role};
use crate::{family, members, stats};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_control::Reason;
use sovia_sys::Mapping;

/// Descriptor numbers that are looked at; sockets above stay on TCP.
pub const FDS: usize = 1 << 20;

const KIND: u64 = 0xff << 56;
const CONN: u64 = 1 << 56;
const EPOLL: u64 = 2 << 56;
const PRIVATE: u64 = 3 << 56;

static TABLE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Descriptors of this process for each connection.
static REFS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// What a descriptor is.
#[derive(Debug, Clone, Copy)]
pub enum Entry {
    /// Nothing of ours.
    Foreign,
    /// A stream socket on record.
    Conn(Ref),
    /// An epoll instance, by its index in [`crate::epoll`].
    Epoll(u32),
    /// A descriptor of the library itself.
    Private,
}

/// A connection as a descriptor refers to it.
#[derive(Debug, Clone, Copy)]
pub struct Ref {
    /// Slot number.
    pub index: u32,
    /// The slot's generation when the descriptor was entered.
    pub generation: u32,
    /// The slot.
    pub conn: &'static Conn,
}

impl Ref {
    fn word(self) -> u64 {
        CONN | u64::from(self.generation & 0xff_ffff) << 32 | u64::from(self.index)
    }

    /// Whether both mean the same connection in the same life.
    pub fn same(self, other: Ref) -> bool {
        self.word() == other.word()
    }
}

/// Marks a private descriptor as such, or unmarks it.
fn observe(fd: i32, made: bool) {
    if made {
        enter_private(fd);
    } else if let Some(slot) = slot(fd) {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == PRIVATE {
            let _ = slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// Makes the tables.
pub fn start() {
    sovia_sys::fd::observe(observe);
    if let Ok(mapping) = Mapping::private(FDS * size_of::<AtomicU64>()) {
        TABLE.store(mapping.base().cast(), Ordering::Release);
        core::mem::forget(mapping);
    }
    if let Ok(mapping) = Mapping::private(family::CONNS * size_of::<AtomicU32>()) {
        REFS.store(mapping.base().cast(), Ordering::Release);
        core::mem::forget(mapping);
    }
}

#[inline]
fn slot(fd: i32) -> Option<&'static AtomicU64> {
    let base = TABLE.load(Ordering::Relaxed);
    if base.is_null() || fd as u32 as usize >= FDS {
        return None;
    }
    // SAFETY: within the table that `start` mapped for good; zero is a valid word.
    Some(unsafe { &*base.add(fd as usize) })
}

fn refs(index: u32) -> Option<&'static AtomicU32> {
    let base = REFS.load(Ordering::Relaxed);
    if base.is_null() || index as usize >= family::CONNS {
        return None;
    }
    // SAFETY: within the table that `start` mapped for good.
    Some(unsafe { &*base.add(index as usize) })
}

#[inline]
fn decode(word: u64) -> Entry {
    match word & KIND {
        CONN => match family::conn(word as u32) {
            Some(conn) => {
                let generation = (word >> 32) as u32 & 0xff_ffff;
                Entry::Conn(Ref { index: word as u32, generation, conn })
            }
            None => Entry::Foreign,
        },
        EPOLL => Entry::Epoll(word as u32),
        PRIVATE => Entry::Private,
        _ => Entry::Foreign,
    }
}

/// What `fd` is.
#[inline]
pub fn get(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => match slot.load(Ordering::Acquire) {
            0 => Entry::Foreign,
            word => decode(word),
        },
        None => Entry::Foreign,
    }
}

/// The connection behind `fd`, if it is one.
#[inline]
pub fn conn(fd: i32) -> Option<Ref> {
    match get(fd) {
        Entry::Conn(r) if r.conn.is_generation(r.generation) => Some(r),
        _ => None,
    }
}

/// Whether `fd` means that connection.
#[inline]
pub fn refers(fd: i32, to: Ref) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) == to.word())
}

/// Records a new stream socket.
pub fn enter_conn(fd: i32, role: Role) {
    if slot(fd).is_none() || !members::is_known() {
        return;
    }
    let Some((index, conn)) = family::take() else {
        stats::reason(Reason::TableFull);
        return;
    };
    let generation = conn.open(role);
    refer(fd, Ref { index, generation, conn });
}

/// Makes `fd` refer to a connection (`dup`, or a new one).
pub fn refer(fd: i32, to: Ref) {
    if let (Some(slot), Some(refs)) = (slot(fd), refs(to.index)) {
        refs.fetch_add(1, Ordering::AcqRel);
        slot.store(to.word(), Ordering::Release);
    }
}

/// Records an epoll instance.
pub fn enter_epoll(fd: i32, index: u32) {
    if let Some(slot) = slot(fd) {
        slot.store(EPOLL | u64::from(index), Ordering::Release);
    }
}

/// Records a descriptor of the library itself.
fn enter_private(fd: i32) {
    if let Some(slot) = slot(fd) {
        slot.store(PRIVATE, Ordering::Release);
    }
}

/// Forgets whatever `fd` was; says what it was.
pub fn remove(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => decode(slot.swap(0, Ordering::AcqRel)),
        None => Entry::Foreign,
    }
}

/// One descriptor fewer for a connection; true if this process has none left.
pub fn release(index: u32) -> bool {
    refs(index).is_some_and(|refs| refs.fetch_sub(1, Ordering::AcqRel) == 1)
}

/// Descriptors that this process has for a connection.
pub fn references(index: u32) -> u32 {
    refs(index).map_or(0, |refs| refs.load(Ordering::Acquire))
}

/// Calls `each` for every descriptor of a connection.
pub fn for_each_conn(mut each: impl FnMut(i32, Ref)) {
    let limit = sovia_sys::call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(FDS as u64);
    // Descriptors above a lowered limit may exist still, but they are few: look at 64 Ki at least.
    let limit = (limit.max(1 << 16) as usize).min(FDS);
    for fd in 0..limit as i32 {
        if let Some(slot) = slot(fd) {
            let word = slot.load(Ordering::Acquire);
            if word & KIND == CONN
                && let Entry::Conn(r) = decode(word)
                && r.conn.is_generation(r.generation)
                && r.conn.phase() != Phase::Free
            {
                each(fd, r);
            }
        }
    }
}

/// A descriptor that this process has for a connection.
pub fn descriptor_of(conn: &Conn) -> Option<i32> {
    let mut found = None;
    for_each_conn(|fd, at| {
        if core::ptr::eq(at.conn, conn) {
            found = Some(fd);
        }
    });
    found
}
