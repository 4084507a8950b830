//! Which descriptors are Sovia's business.
//!
//! One word for each descriptor number: what it is, and an index. A look-up is one load; a
//! descriptor without an entry goes to libc untouched. The words of low numbers are part of the
//! library's own data; those of higher numbers are mapped, a chunk at a time, when the first of them is
//! entered.

use crate::conn::{Conn, Favoured, Guard, Phase, Role};
use crate::per_engine::per_engine;
use crate::{family, members, process, stats};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sovia_control::Reason;
use sovia_sys::stall::{At, point};
use sovia_sys::{Mapping, call, diag};

/// Descriptor numbers that are looked at; sockets above stay on TCP.
pub const FDS: usize = 1 << 20;

const KIND: u64 = 0xff << 56;
const CONN: u64 = 1 << 56;
const EPOLL: u64 = 2 << 56;
const PRIVATE: u64 = 3 << 56;
/// A TCP socket without a connection; what it is else is the kernel's to know.
const TCP: u64 = 4 << 56;

/// Numbers whose words are in a chunk.
const CHUNK: usize = 4096;

type Chunk = [AtomicU64; CHUNK];

per_engine! {
    /// The words of the numbers below [`CHUNK`].
    static FIRST: Chunk = [const { AtomicU64::new(0) }; CHUNK];
    /// Those of the others; null where none has been entered.
    static CHUNKS: [AtomicPtr<Chunk>; FDS / CHUNK] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; FDS / CHUNK];
    /// Descriptors of this process for each connection.
    static REFS: [AtomicU32; family::CONNS] = [const { AtomicU32::new(0) }; family::CONNS];
}

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

    /// Takes the lock of the connection if it still lives the life that is meant, on a VI and in this process.
    #[inline]
    pub fn attached(self) -> Option<Guard<'static>> {
        self.conn.attached().filter(|_| self.conn.is_generation(self.generation))
    }

    /// The same, if the lock favours the calling thread, which is under no lock.
    #[inline(always)]
    pub(crate) fn favoured(self) -> Option<Favoured<'static>> {
        self.conn.favoured(self.generation)
    }

    /// Whether the connection still lives that life, on a VI and in this process.
    pub(crate) fn is_attached_here(self) -> bool {
        self.conn.is_attached_here() && self.conn.is_generation(self.generation)
    }

    /// Whether both mean the same connection in the same life.
    pub fn same(self, other: Ref) -> bool {
        self.word() == other.word()
    }
}

/// Marks a private descriptor as such, or unmarks it.
fn observe(fd: i32, made: bool) {
    if process::is_borrowed() {
        // A number of another table of descriptors.
    } else if made {
        enter_private(fd);
    } else if let Some(slot) = slot(fd) {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == PRIVATE {
            let _ = slot.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// From here on private descriptors are in the table.
pub fn start() {
    sovia_sys::fd::observe(observe);
}

#[inline]
fn slot(fd: i32) -> Option<&'static AtomicU64> {
    match FIRST.get(fd as u32 as usize) {
        Some(slot) => Some(slot),
        None => slot_above(fd),
    }
}

/// The word of a number above the first chunk's; `None` where that chunk has not been mapped.
#[inline]
fn slot_above(fd: i32) -> Option<&'static AtomicU64> {
    let number = fd as u32 as usize;
    let chunk = CHUNKS.get(number / CHUNK)?.load(Ordering::Acquire);
    // SAFETY: null, or a chunk that `slot_to_enter` mapped for good; zero is a valid word.
    unsafe { chunk.as_ref() }.map(|chunk| &chunk[number % CHUNK])
}

/// The word of `fd`, whose chunk is mapped if it has not been.
fn slot_to_enter(fd: i32) -> Option<&'static AtomicU64> {
    if let Some(slot) = slot(fd) {
        return Some(slot);
    }
    let place = CHUNKS.get(fd as u32 as usize / CHUNK)?;
    let mapping = Mapping::private(size_of::<Chunk>()).ok()?;
    let base = mapping.base().cast();
    // SYNC: Release publishes the mapping; `slot_above` loads it with Acquire.
    if place
        .compare_exchange(core::ptr::null_mut(), base, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        // It lasts as long as the process.
        core::mem::forget(mapping);
    }
    slot(fd)
}

fn refs(index: u32) -> Option<&'static AtomicU32> {
    REFS.get(index as usize)
}

#[inline]
fn decode(word: u64) -> Entry {
    match word & KIND {
        CONN => match family::conn(word as u32) {
            Some(conn) => Entry::Conn(refer_to(word, conn)),
            None => Entry::Foreign,
        },
        EPOLL => Entry::Epoll(word as u32),
        PRIVATE => Entry::Private,
        _ => Entry::Foreign,
    }
}

/// A connection among the family's first by a low number, in few instructions, which are a part of every
/// call. `None` for all else.
#[inline(always)]
fn conn_at_once(word: u64) -> Option<Ref> {
    if word & KIND == CONN && process::is_at_home() {
        let conn = family::conn_among_first(word as u32)?;
        Some(refer_to(word, conn))
    } else {
        None
    }
}

/// What `fd` is.
#[inline]
pub fn get(fd: i32) -> Entry {
    let word = FIRST.get(fd as u32 as usize).map(|slot| slot.load(Ordering::Acquire));
    if word == Some(0) {
        return Entry::Foreign;
    }
    match conn_at_once(word.unwrap_or(0)) {
        Some(at) => Entry::Conn(at),
        None => get_rare(fd),
    }
}

#[inline(never)]
fn get_rare(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => match slot.load(Ordering::Acquire) {
            0 => Entry::Foreign,
            _ if process::is_elsewhere() => get_elsewhere(fd),
            word => decode(word),
        },
        None => Entry::Foreign,
    }
}

#[inline(always)]
fn refer_to(word: u64, conn: &'static Conn) -> Ref {
    Ref { index: word as u32, generation: (word >> 32) as u32 & 0xff_ffff, conn }
}

/// In a child that runs on this process's memory, with descriptors of its own: a number means what it
/// means here only while it is the same socket there.
#[cold]
#[inline(never)]
fn get_elsewhere(fd: i32) -> Entry {
    match slot(fd).map(|slot| decode(slot.load(Ordering::Acquire))) {
        Some(Entry::Conn(at)) if is_socket_of(fd, at.conn) => Entry::Conn(at),
        _ => Entry::Foreign,
    }
}

/// Whether a descriptor is a connection's socket. Asks the kernel. Another one is it when the program has
/// closed that by a system call of its own and opened another, which has got the number, in the same way;
/// or in a child that has descriptors of its own.
pub(crate) fn is_socket_of(fd: i32, conn: &Conn) -> bool {
    let cookie = conn.cookie.load(Ordering::Relaxed);
    cookie != 0 && sovia_sys::diag::cookie(fd) == Ok(cookie)
}

/// The connection of this process whose socket `fd` is as well, by whatever way that has come to it, and another
/// descriptor of it. Asks the kernel.
pub(crate) fn conn_of_socket(fd: i32) -> Option<(i32, Ref)> {
    let cookie = sovia_sys::diag::cookie(fd).ok()?;
    let mut found = None;
    for_each_conn(|own, at| {
        let is_same = own != fd && at.conn.cookie.load(Ordering::Relaxed) == cookie;
        if is_same && is_socket_of(own, at.conn) {
            found = Some((own, at));
        }
    });
    found
}

/// Calls `each` for every descriptor of the caller's, a child on this process's memory, that is the socket
/// of an accelerated connection of this process, under whatever number.
pub fn for_each_conn_elsewhere(mut each: impl FnMut(i32, Ref)) {
    let mut known = Vec::new();
    for_each_conn(|_, at| {
        let cookie = at.conn.cookie.load(Ordering::Relaxed);
        if at.conn.phase() == Phase::Attached && cookie != 0 {
            known.push((cookie, at));
        }
    });
    if known.is_empty() {
        return;
    }
    known.sort_unstable_by_key(|&(cookie, _)| cookie);
    let look = |fd| {
        if let Ok(cookie) = sovia_sys::diag::cookie(fd)
            && let Ok(found) = known.binary_search_by_key(&cookie, |&(cookie, _)| cookie)
        {
            each(fd, known[found].1);
        }
    };
    let mut open = Vec::new();
    if call::each_descriptor(|fd| open.push(fd)) {
        open.into_iter().for_each(look);
    } else {
        (0..highest()).for_each(look);
    }
}

/// The connection behind `fd`, if it is one.
#[inline(always)]
pub fn conn(fd: i32) -> Option<Ref> {
    let word = FIRST.get(fd as u32 as usize).map(|slot| slot.load(Ordering::Acquire));
    if word == Some(0) {
        return None;
    }
    point(At::LookedUp);
    let at = match conn_at_once(word.unwrap_or(0)) {
        Some(at) => at,
        None => conn_rare(fd)?,
    };
    at.conn.is_generation(at.generation).then_some(at)
}

#[inline(never)]
fn conn_rare(fd: i32) -> Option<Ref> {
    match get_rare(fd) {
        Entry::Conn(at) => Some(at),
        _ => None,
    }
}

/// Whether `fd` means that connection.
#[inline]
pub fn refers(fd: i32, to: Ref) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Acquire) == to.word())
}

/// Whether nothing is known of `fd`.
#[inline]
pub fn is_blank(fd: i32) -> bool {
    slot(fd).is_none_or(|slot| slot.load(Ordering::Acquire) == 0)
}

/// Notes that `fd` is a TCP socket, which has no connection yet or listens: the kernel need not be asked then.
pub fn note_tcp(fd: i32) {
    if !process::is_borrowed()
        && let Some(slot) = FIRST.get(fd as u32 as usize)
    {
        let _ = slot.compare_exchange(0, TCP, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The number is about to be closed: that is forgotten.
#[inline]
pub fn forget_tcp(fd: i32) {
    if let Some(slot) = FIRST.get(fd as u32 as usize)
        && slot.load(Ordering::Relaxed) == TCP
        && !process::is_borrowed()
    {
        let _ = slot.compare_exchange(TCP, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Whether `fd` is a TCP socket. Asks the kernel where that has not been noted.
pub fn is_tcp(fd: i32) -> bool {
    is_noted_tcp(fd) || sovia_sys::call::is_tcp(fd)
}

/// Whether that has been noted, and no call that Sovia sees has given the number to another descriptor since.
pub fn is_noted_tcp(fd: i32) -> bool {
    let slot = FIRST.get(fd as u32 as usize);
    slot.is_some_and(|slot| slot.load(Ordering::Acquire) == TCP) && !process::is_elsewhere()
}

/// Records a new stream socket. `place`: where the lengths of connections like this one are counted, if that is
/// known.
pub fn enter_conn(fd: i32, role: Role, place: Option<u32>) {
    if slot_to_enter(fd).is_none() || !members::is_known() {
        return;
    }
    let Some((index, conn)) = family::take() else {
        stats::reason(Reason::TableFull);
        return;
    };
    let generation = conn.open(role);
    conn.approach.told.store(place.map_or(0, |place| place + 1), Ordering::Relaxed);
    // Without one (0) it never meets.
    conn.cookie.store(diag::cookie(fd).unwrap_or(0), Ordering::Relaxed);
    refer(fd, Ref { index, generation, conn });
    stats::recorded();
}

/// Makes `fd` refer to a connection (`dup`, or a new one).
pub fn refer(fd: i32, to: Ref) {
    if let (Some(slot), Some(refs)) = (slot_to_enter(fd), refs(to.index)) {
        refs.fetch_add(1, Ordering::AcqRel);
        point(At::Taking);
        slot.store(to.word(), Ordering::Release);
    }
}

/// Records an epoll instance.
pub fn enter_epoll(fd: i32, index: u32) {
    if !process::is_borrowed()
        && let Some(slot) = slot_to_enter(fd)
    {
        slot.store(EPOLL | u64::from(index), Ordering::Release);
    }
}

per_engine! {
    /// Counts the forks between this process and the first of its family.
    static FORKS: AtomicU32 = AtomicU32::new(0);
}

/// In a forked child: distinguishes what it has from its parent from what it makes itself.
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Records a descriptor of the library itself.
fn enter_private(fd: i32) {
    if let Some(slot) = slot_to_enter(fd) {
        slot.store(PRIVATE | u64::from(FORKS.load(Ordering::Relaxed)), Ordering::Release);
    }
}

/// Calls `each` for every descriptor of the library's that this process has from its parent.
pub(crate) fn for_each_inherited(mut each: impl FnMut(i32)) {
    let forks = u64::from(FORKS.load(Ordering::Relaxed));
    if forks == 0 {
        return;
    }
    for_each_word(|fd, slot| {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == PRIVATE && word != PRIVATE | forks {
            slot.store(PRIVATE | forks, Ordering::Release);
            each(fd);
        }
    });
}

/// Calls `each` for every word of the table. Makes no system call.
fn for_each_word(mut each: impl FnMut(i32, &AtomicU64)) {
    let mut look = |first: usize, chunk: &Chunk| {
        for (i, slot) in chunk.iter().enumerate() {
            each((first + i) as i32, slot);
        }
    };
    look(0, &FIRST);
    for (i, chunk) in CHUNKS.iter().enumerate() {
        // SAFETY: as in `slot_above`.
        if let Some(chunk) = unsafe { chunk.load(Ordering::Acquire).as_ref() } {
            look(i * CHUNK, chunk);
        }
    }
}

/// Removes the entry of `fd`; returns what it was.
pub fn remove(fd: i32) -> Entry {
    match slot(fd) {
        Some(slot) => {
            point(At::GivingBack);
            decode(slot.swap(0, Ordering::AcqRel))
        }
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

/// No descriptor has this number, or a higher one.
fn highest() -> i32 {
    let limit = sovia_sys::call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(FDS as u64);
    // Descriptors above a lowered limit may exist still, but they are few: look at 64 Ki at least.
    (limit.max(1 << 16) as usize).min(FDS) as i32
}

/// Calls `each` for every descriptor of a connection. Makes no system call.
pub fn for_each_conn(mut each: impl FnMut(i32, Ref)) {
    for_each_word(|fd, slot| {
        let word = slot.load(Ordering::Acquire);
        if word & KIND == CONN
            && let Entry::Conn(r) = decode(word)
            && r.conn.is_generation(r.generation)
            && r.conn.phase() != Phase::Free
        {
            each(fd, r);
        }
    });
}

/// Calls `each` for every descriptor of an epoll instance that is followed.
pub(crate) fn for_each_epoll(mut each: impl FnMut(i32, u32)) {
    for_each_word(|fd, slot| {
        if let Entry::Epoll(index) = decode(slot.load(Ordering::Acquire)) {
            each(fd, index);
        }
    });
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
