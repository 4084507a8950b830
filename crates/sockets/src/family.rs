//! Connections of a family of processes: one that was exec'ed, and all that it forked.
//!
//! Forked processes share their sockets, so what Sovia knows of a socket must be shared as well:
//! it lies in mappings that are at the same address in each of them, out of the reach of any peer.
//! They are made when they are needed: the first with the first connection that is recorded, further
//! ones as there are more. A process that is forked before has memory of its own, and shares no
//! socket that is recorded. One that is forked later shares the mappings that there were at the fork;
//! what it maps after that belongs to it, and to the children it forks then.
//!
//! They lie in files, which other processes can read (`files`).
//!
//! A slot is taken by setting its bit, which lies in the slot's own chunk; the generation tells a
//! slot's lives apart.

mod files;

use crate::backlog;
use crate::conn::{CONNS, Conn, Holding, Phase};
use crate::members::{self, Members, is_known};
use crate::passed_on::PassedOn;
use crate::per_engine::{self, per_engine};
use crate::stats;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub(crate) use files::{LEN as FILE_LEN, inherited as file, is_in_a_file};
use sovia_control::{StatsPage, board};
use sovia_sync::record;
use sovia_sys::{Fd, process};

/// Connections of a chunk.
const CHUNK: usize = 1 << 9;
const WORDS: usize = CHUNK / 64;
/// Epoll instances whose users are known.
const SET_USERS: usize = 4096;

#[repr(C, align(4096))]
struct Header {
    used: [AtomicU64; WORDS],
    _gap: [AtomicU64; GAP],
    /// What lies where in the chunk, for readers.
    legend: files::Words,
}

/// Words between the bits and the legend.
const GAP: usize = board::AT / 8 - WORDS;

/// A mapping: slots, and which of them are taken.
#[repr(C)]
struct Chunk {
    header: Header,
    conns: [Conn; CHUNK],
}

/// The first mapping.
#[repr(C)]
struct First {
    chunk: Chunk,
    /// For each epoll instance that is followed, the processes that use it.
    set_users: [AtomicU64; SET_USERS],
    /// How many entries epoll sets have had.
    set_entries: AtomicU64,
    /// Bytes that the family's connections use of segments ([`backlog`]).
    backlog: AtomicU64,
    /// The family's threads, of which some hold locks in chunks.
    threads: record::Table<{ record::SHARED }>,
    /// Connections that have been sent to other processes.
    passed: PassedOn,
    /// The PID namespace of the process that made this; 0: it is not known.
    namespace: AtomicU64,
    /// What the family's processes have counted.
    totals: Totals,
    /// The family's processes.
    members: Members,
}

/// Offset of that list in the first file, in bytes.
pub(crate) const MEMBERS_AT: u64 = offset_of!(First, members) as u64;

/// Counters, with as much room as readers ask for.
#[repr(C, align(4096))]
struct Totals {
    page: StatsPage,
}

const _: () = assert!(size_of::<Totals>() == StatsPage::SIZE);

per_engine! {
    /// The chunks after the first, which [`members::LIST`] finds.
    static FURTHER: [AtomicPtr<Chunk>; CONNS / CHUNK - 1] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; CONNS / CHUNK - 1];
}

/// Notes in `word` in which PID namespace this process is.
fn note_namespace(word: &AtomicU64) {
    word.store(process::pid_namespace().unwrap_or(0), Ordering::Relaxed);
}

/// The PID namespace in which the family has begun.
pub(crate) fn namespace() -> Option<u64> {
    let namespace = first_mapping()?.namespace.load(Ordering::Relaxed);
    (namespace != 0).then_some(namespace)
}

/// Connections that the family's processes have sent to other processes.
pub(crate) fn passed_on() -> Option<&'static PassedOn> {
    first_mapping().map(|first| &first.passed)
}

/// Where that lies in the file.
pub(crate) const PASSED_ON_AT: u64 = offset_of!(First, passed) as u64;

/// Where the record of a connection lies in that file, if it does.
pub(crate) fn place_in_file(index: u32) -> Option<usize> {
    let index = index as usize;
    (index < CHUNK).then(|| offset_of!(First, chunk.conns) + index * size_of::<Conn>())
}

/// The first chunk. Its list of members and its slots are found by one word, so that a child forked
/// at any time has both or neither.
#[inline(always)]
fn first() -> Option<&'static Chunk> {
    first_mapping().map(|first| &first.chunk)
}

/// The first mapping, which has the list of members.
#[inline(always)]
fn first_mapping() -> Option<&'static First> {
    let list = members::LIST.load(Ordering::Acquire);
    // SAFETY: null, or the list in a mapping that `map` made for good.
    (!list.is_null())
        .then(|| unsafe { &*list.byte_sub(offset_of!(First, members)).cast::<First>() })
}

/// The chunk at that place, if there is one.
fn chunk(at: usize) -> Option<&'static Chunk> {
    if at == 0 {
        return first();
    }
    // SAFETY: null, or a chunk that `map` made for good.
    unsafe { FURTHER.get(at - 1)?.load(Ordering::Acquire).as_ref() }
}

/// Makes a chunk's memory, unless another thread is earlier. `None` if there is no room for it.
#[cold]
fn map(at: usize) -> Option<&'static Chunk> {
    let (mapping, file) = files::map(at)?;
    let base: *mut Chunk = mapping.base().cast();
    // SYNC: AcqRel publishes what `join` has stored; `first` and `chunk` load with Acquire.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    if at == 0 {
        members::found();
    }
    // SAFETY: a mapping as long as a Chunk, all zero, which is a valid one.
    let header = unsafe { &(*base).header };
    files::describe(&header.legend, at);
    let is_ours = if at == 0 {
        // SAFETY: a mapping as long as a First, all zero, which is a valid one.
        let first = unsafe { &*base.cast::<First>() };
        first.totals.page.begin();
        members::join(&first.members);
        let list = core::ptr::from_ref(&first.members).cast_mut();
        members::LIST.compare_exchange(core::ptr::null_mut(), list, success, failure).is_ok()
    } else {
        let none = core::ptr::null_mut();
        FURTHER.get(at - 1)?.compare_exchange(none, base, success, failure).is_ok()
    };
    if is_ours {
        // They last as long as the process.
        core::mem::forget(mapping);
        if let Some(file) = file {
            files::keep(at, file, first().map(|chunk| &chunk.header.legend));
        }
        share_threads();
        if let Some(first) = first_mapping() {
            backlog::count_in(&first.backlog);
            stats::count_in(&first.totals.page);
            if at == 0 {
                files::let_inherit();
                first.passed.begin(Holding::LAYOUT, members::locks_id());
                note_namespace(&first.namespace);
            }
        }
    }
    chunk(at)
}

/// Locks in the family's memory are known to be held by threads of the family: said when there is such
/// memory, and in a forked child, whose parent may have been about to.
pub(crate) fn share_threads() {
    if let Some(first) = first_mapping()
        && per_engine::keeps_threads()
    {
        record::share(&first.threads);
    }
}

/// The chunks that there are, with their places.
fn chunks() -> impl Iterator<Item = (usize, &'static Chunk)> {
    (0..CONNS / CHUNK).filter_map(|at| Some((at, chunk(at)?)))
}

/// The users of the epoll instance that has that place ([`crate::sets`]).
#[inline]
pub(crate) fn set_users(place: u32) -> Option<&'static AtomicU64> {
    if first().is_none() {
        // Children that are forked from now on share the instance.
        map(0)?;
    }
    first_mapping()?.set_users.get(place as usize)
}

/// A number for a new entry of an epoll set, which a forked child's copy of the entry has as well; never 0.
pub(crate) fn number_set_entry() -> u64 {
    first_mapping().map_or(1, |first| first.set_entries.fetch_add(1, Ordering::Relaxed) + 2)
}

/// Those of all places.
pub(crate) fn each_set_users() -> impl Iterator<Item = &'static AtomicU64> {
    first_mapping().into_iter().flat_map(|first| &first.set_users)
}

/// The slot with that number, if it is one of the first chunk's.
#[inline(always)]
pub(crate) fn conn_among_first(index: u32) -> Option<&'static Conn> {
    first()?.conns.get(index as usize)
}

/// The slot with that number.
#[inline]
pub fn conn(index: u32) -> Option<&'static Conn> {
    let index = index as usize;
    if index < CHUNK {
        first().map(|chunk| &chunk.conns[index])
    } else {
        chunk(index / CHUNK).map(|chunk| &chunk.conns[index % CHUNK])
    }
}

/// Calls `each` for every connection of the family's.
pub(crate) fn each_conn(mut each: impl FnMut(&Conn)) {
    for (_, chunk) in chunks() {
        chunk.conns.iter().filter(|conn| conn.phase() != Phase::Free).for_each(&mut each);
    }
}

/// Takes a free slot.
pub fn take() -> Option<(u32, &'static Conn)> {
    search().or_else(|| {
        sweep();
        search()
    })
}

/// Frees the slots of connections whose every holder has died without a close.
#[cold]
pub(crate) fn sweep() {
    for (at, chunk) in chunks() {
        for (i, conn) in chunk.conns.iter().enumerate() {
            let generation = conn.generation();
            let used = chunk.header.used[i / 64].load(Ordering::Acquire) >> (i % 64) & 1;
            // One without any holder is being opened just now.
            let holders = conn.holders.load(Ordering::Acquire);
            if used != 0 && holders != 0 && !members::has_me(holders) && !is_shared(conn) {
                reap((at * CHUNK + i) as u32, conn, generation);
            }
        }
    }
}

/// Ends the life of a connection whose holders have all died without a close, and frees the slot. While a process is leaving
/// the connection nothing happens: that process is the last, and ends the life itself.
fn reap(index: u32, conn: &Conn, generation: u32) {
    let Some(_locked) = conn.lock_if_free() else { return };
    if conn.phase() != Phase::Free && conn.end(generation) {
        give_back(index);
    }
}

/// The first free slot, in a new chunk if all others are full.
fn search() -> Option<(u32, &'static Conn)> {
    (0..CONNS / CHUNK).find_map(|at| {
        let chunk = chunk(at).or_else(|| map(at))?;
        let i = take_in(chunk)?;
        Some(((at * CHUNK + i) as u32, &chunk.conns[i]))
    })
}

fn take_in(chunk: &Chunk) -> Option<usize> {
    for (w, word) in chunk.header.used.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let bit = (!bits).trailing_zeros();
            match word.compare_exchange_weak(
                bits,
                bits | 1 << bit,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(w * 64 + bit as usize),
                Err(now) => bits = now,
            }
        }
    }
    None
}

/// Gives a slot back. Its generation must have been changed before.
pub fn give_back(index: u32) {
    if let Some((word, bit)) = used(index) {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// Returns the word and the bit that say whether a slot is taken.
fn used(index: u32) -> Option<(&'static AtomicU64, u64)> {
    let (at, i) = (index as usize / CHUNK, index as usize % CHUNK);
    Some((&chunk(at)?.header.used[i / 64], 1 << (i % 64)))
}

/// A connection that this process has taken off the record before it leaves the family's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retired {
    /// Its slot.
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// Whether no relative holds it: then its slot there is free.
    pub(crate) is_last: bool,
}

/// Gives this process memory of its own in the place of what it shares with its relatives. Slots of
/// `retired` connections, on which calls of other threads may be under way, say that those are on TCP,
/// and are not used again; all others are free.
///
/// False if there is no memory to be had.
pub(crate) fn leave(retired: &[Retired]) -> bool {
    let place_of = |base: usize| {
        chunks().find(|(_, chunk)| core::ptr::from_ref(*chunk).addr() == base).map(|(at, _)| at)
    };
    let mut renewed: Vec<(usize, Fd)> = Vec::new();
    let file = |base: usize, _len: usize| {
        let at = place_of(base)?;
        renewed.push((at, files::renew(at)?));
        renewed.last().map(|(_, file)| file.raw())
    };
    let fill = |base: usize, old: *const u8, new: *mut u8, len: usize| {
        let (old, new) = (Memory { base, at: old, len }, Memory { base, at: new, len });
        let place = place_of(base);
        if let Some(list) = members::list().and_then(|list| new.counterpart(list)) {
            members::begin_anew(list);
        }
        let legend = place.and_then(|at| Some((at, new.counterpart(&chunk(at)?.header.legend)?)));
        if let Some((at, legend)) = legend {
            files::describe(legend, at);
        }
        let Some(first) = first_mapping() else { return };
        if let Some(totals) = new.counterpart(&first.totals) {
            totals.page.begin();
        }
        if let Some(namespace) = new.counterpart(&first.namespace) {
            note_namespace(namespace);
        }
        if let (Some(before), Some(after)) =
            (old.counterpart(&first.threads), new.counterpart(&first.threads))
        {
            after.take_over(before);
        }
        for one in retired {
            let Some(conn) = conn(one.index) else { continue };
            if let (Some(before), Some(after)) = (old.counterpart(conn), new.counterpart(conn)) {
                after.retire(before);
            }
            if let Some((word, bit)) = used(one.index)
                && let Some(word) = new.counterpart(word)
            {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    };
    let settle = |base: usize, old: *const u8, len: usize| {
        let old = Memory { base, at: old, len };
        if let Some(first) = first_mapping()
            && let Some(before) = old.counterpart(&first.threads)
        {
            first.threads.catch_up(before);
        }
        // No thread of this process looks at the slots there any more.
        for one in retired.iter().filter(|one| one.is_last) {
            if let Some(conn) = conn(one.index).and_then(|conn| old.counterpart(conn))
                && let Some((word, bit)) = used(one.index)
                && let Some(word) = old.counterpart(word)
                && conn.end(one.generation)
            {
                word.fetch_and(!bit, Ordering::AcqRel);
            }
        }
    };
    let left = sovia_sys::mapping::leave_family(file, fill, settle);
    files::leave();
    for (at, file) in renewed {
        files::keep(at, file, first().map(|chunk| &chunk.header.legend));
    }
    left
}

/// In a forked child.
pub(crate) fn born() {
    if first().is_none() {
        files::forget();
    }
}

/// Memory of the layout of one of the family's mappings, elsewhere.
struct Memory {
    /// Where the mapping is.
    base: usize,
    at: *const u8,
    len: usize,
}

impl Memory {
    /// What is here in the place of `one`, if that is in the family's mapping.
    fn counterpart<T>(&self, one: &T) -> Option<&T> {
        let offset = core::ptr::from_ref(one).addr().checked_sub(self.base)?;
        if offset + size_of::<T>() > self.len {
            return None;
        }
        // SAFETY: within memory as long as the mapping and laid out alike: that mapped a second time, or
        // zeroed memory that will take its place. What lies there consists of atomics, or belongs to the
        // holder of a lock whose state is not copied; all-zero bytes are valid. It stays mapped for as
        // long as `self` is used.
        Some(unsafe { &*self.at.add(offset).cast::<T>() })
    }
}

/// Before fork: a place for the child; `None` if there is nothing that it could share.
pub fn expect_child() -> Option<usize> {
    let child = members::expect()?;
    if child.is_known {
        for users in each_set_users().filter(|users| users.load(Ordering::Relaxed) != 0) {
            members::strike(users, child.place);
        }
        // What its last owner held, it holds no more.
        for (at, chunk) in chunks() {
            for (w, word) in chunk.header.used.iter().enumerate() {
                let mut bits = word.load(Ordering::Acquire);
                while bits != 0 {
                    let i = w * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let conn = &chunk.conns[i];
                    conn.forget_waiting(child.place);
                    let generation = conn.generation();
                    let (before, after) = members::strike(&conn.holders, child.place);
                    // No process would ever find that it has no holder any more.
                    if before != after && after.is_empty() {
                        reap((at * CHUNK + i) as u32, conn, generation);
                    }
                }
            }
        }
    }
    Some(child.place)
}

/// Whether living processes other than this one hold a connection. Strikes the dead ones out.
pub fn is_shared(conn: &Conn) -> bool {
    !is_known() || members::others_live(&conn.holders)
}
