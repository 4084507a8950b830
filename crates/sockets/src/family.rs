//! Connections of a family: a process, all processes forked from it, and the programs that join them at an exec
//! ([`crate::exec`]).
//!
//! Forked processes share their sockets, so Sovia's data on a socket must be shared as well. The data lies in
//! mappings at the same address in each process of the family. No peer can reach these mappings. The first recorded
//! connection makes the first mapping, and more mappings follow when needed. A process shares the mappings that
//! existed when it was forked. Mappings that a process makes later belong to this process and its later children.
//!
//! The mappings lie in files, which other processes can read (`files`).
//!
//! To take a slot, a process sets the slot's bit, which lies in the slot's own chunk. The generation distinguishes
//! successive uses of a slot.

mod files;

use crate::backlog;
use crate::conn::{CONNS, Conn, Holding, Phase};
use crate::passed_on::PassedOn;
use crate::per_engine::{self, per_engine};
use crate::process_slots::{self, Expected, ProcessSlots, is_known};
use crate::stats;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
pub(crate) use files::{LEN as FILE_LEN, inherited as file, is_in_a_file};
use sovia_control::{StatsPage, stats_page};
use sovia_sync::robust_entry;
use sovia_sys::{Fd, Mapping};

/// Number of connections in a chunk.
const CHUNK: usize = 1 << 9;
const WORDS: usize = CHUNK / 64;
/// Number of epoll instances whose users are recorded.
const EPOLL_SET_USERS: usize = 4096;

#[repr(C, align(4096))]
struct Header {
    used: [AtomicU64; WORDS],
    _gap: [AtomicU64; GAP],
    /// Schema: position of each word in the chunk, for readers of the statistics page.
    schema: files::Words,
}

/// Number of words between `used` and the schema.
const GAP: usize = stats_page::AT / 8 - WORDS;

/// A mapping: slots, and a bit for each taken slot.
#[repr(C)]
struct Chunk {
    header: Header,
    conns: [Conn; CHUNK],
}

/// The first mapping: a chunk, and data that the family has only once.
#[repr(C)]
struct First {
    chunk: Chunk,
    /// Processes that use each epoll instance in which Sovia serves connections.
    epoll_set_users: [AtomicU64; EPOLL_SET_USERS],
    /// Number of entries that epoll sets have had, for [`number_epoll_entry`].
    epoll_entries: AtomicU64,
    /// Number of bytes that the family's connections use in segments ([`backlog`]).
    backlog: AtomicU64,
    /// Robust-list entries of the family's threads. These threads may hold locks in chunks.
    threads: robust_entry::Table<{ robust_entry::SHARED }>,
    /// Connections that have been sent to other processes.
    passed: PassedOn,
    /// Counters of all processes of the family.
    totals: Totals,
    /// The processes of the family.
    process_slots: ProcessSlots,
}

/// Offset of the list of processes in the first file, in bytes.
pub(crate) const PROCESS_SLOTS_AT: u64 = offset_of!(First, process_slots) as u64;

/// Counters of the family, padded to the size that readers of the statistics page expect.
#[repr(C, align(4096))]
struct Totals {
    page: StatsPage,
}

const _: () = assert!(size_of::<Totals>() == StatsPage::SIZE);

per_engine! {
    /// The chunks after the first chunk. [`process_slots::LIST`] leads to the first chunk.
    static FURTHER: [AtomicPtr<Chunk>; CONNS / CHUNK - 1] =
        [const { AtomicPtr::new(core::ptr::null_mut()) }; CONNS / CHUNK - 1];
}

/// Returns the connections that the family's processes have sent to other processes.
pub(crate) fn passed_on() -> Option<&'static PassedOn> {
    first_mapping().map(|first| &first.passed)
}

/// Offset of the connections that were sent to other processes, in the first file.
pub(crate) const PASSED_ON_AT: u64 = offset_of!(First, passed) as u64;

/// Returns the offset of connection `index` in the first file, if the connection lies in this file.
pub(crate) fn place_in_file(index: u32) -> Option<usize> {
    let index = index as usize;
    (index < CHUNK).then(|| offset_of!(First, chunk.conns) + index * size_of::<Conn>())
}

/// Returns the first chunk. [`process_slots::LIST`] leads both to the list of processes and to the chunk. So a forked
/// child has either both or neither.
#[inline(always)]
fn first() -> Option<&'static Chunk> {
    first_mapping().map(|first| &first.chunk)
}

/// Returns the first mapping, which has the list of processes.
#[inline(always)]
fn first_mapping() -> Option<&'static First> {
    let list = process_slots::LIST.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or leads to the list in a mapping that `map` has made and never unmaps.
    (!list.is_null())
        .then(|| unsafe { &*list.byte_sub(offset_of!(First, process_slots)).cast::<First>() })
}

/// Returns the chunk with number `at`, if it exists.
fn chunk(at: usize) -> Option<&'static Chunk> {
    if at == 0 {
        return first();
    }
    // SAFETY: the pointer is null, or leads to a chunk that `map` has made and never unmaps.
    unsafe { FURTHER.get(at - 1)?.load(Ordering::Acquire).as_ref() }
}

/// Maps chunk `at`, unless another thread has already mapped it. Returns `None` if there is no memory.
#[cold]
fn map(at: usize) -> Option<&'static Chunk> {
    let (mapping, file) = files::map(at)?;
    let base: *mut Chunk = mapping.base().cast();
    // SYNC: AcqRel publishes the words that `join` has stored; `first` and `chunk` load with Acquire.
    let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
    if at == 0 {
        process_slots::found();
    }
    // SAFETY: the mapping is as long as a Chunk, and contains zeros, which are a valid header.
    let header = unsafe { &(*base).header };
    files::describe(&header.schema, at);
    let is_ours = if at == 0 {
        // SAFETY: the mapping is as long as a First, and contains zeros, which are a valid First.
        let first = unsafe { &*base.cast::<First>() };
        first.totals.page.begin();
        process_slots::join(&first.process_slots);
        let list = core::ptr::from_ref(&first.process_slots).cast_mut();
        process_slots::LIST.compare_exchange(core::ptr::null_mut(), list, success, failure).is_ok()
    } else {
        let none = core::ptr::null_mut();
        FURTHER.get(at - 1)?.compare_exchange(none, base, success, failure).is_ok()
    };
    if is_ours {
        // Keep the mapping for as long as the process lives.
        core::mem::forget(mapping);
        if let Some(file) = file {
            stats::show(file.raw());
            files::keep(at, file, first().map(|chunk| &chunk.header.schema));
        }
        use_first();
        if let Some(first) = first_mapping().filter(|_| at == 0) {
            files::let_inherit();
            first.passed.begin(Holding::LAYOUT, process_slots::locks_id());
        }
    }
    chunk(at)
}

/// Makes this process use the data that the family has only once.
fn use_first() {
    share_threads();
    if let Some(first) = first_mapping() {
        backlog::count_in(&first.backlog);
        stats::count_in(&first.totals.page);
    }
}

/// Returns the address of the first mapping.
pub(crate) fn base() -> Option<usize> {
    first_mapping().map(|first| core::ptr::from_ref(first).addr())
}

/// Makes this process a process of the family whose first file is `records`. The family has the file's memory at the
/// address `base`. The other parameters are those of [`process_slots::take_reserved`]. Returns false if the memory
/// cannot be mapped at this address. Called at the start of a program, which has no family yet.
pub(crate) fn join(records: Fd, base: usize, slot: u32, locks: Fd, locks_id: u64) -> bool {
    let Ok(mapping) = Mapping::for_family_at(base, records.raw(), files::LEN as usize) else {
        return false;
    };
    // SAFETY: the mapping is as long as a First. The caller has checked that a process with the same build of the
    // library has left the file for this program. Only `map` makes such files, and they contain a First.
    let first: &'static First = unsafe { &*mapping.base().cast() };
    core::mem::forget(mapping);
    files::keep(0, records, None);
    files::let_inherit();
    process_slots::take_reserved(&first.process_slots, slot, locks, locks_id);
    use_first();
    true
}

/// Records that threads of the family may hold locks in the family's memory. Called after this memory is made, and
/// in a forked child: the fork may have come between the parent's mapping and the parent's call.
pub(crate) fn share_threads() {
    if let Some(first) = first_mapping()
        && per_engine::keeps_threads()
    {
        robust_entry::share(&first.threads);
    }
}

/// Returns the existing chunks with their numbers.
fn chunks() -> impl Iterator<Item = (usize, &'static Chunk)> {
    (0..CONNS / CHUNK).filter_map(|at| Some((at, chunk(at)?)))
}

/// Returns the word with the users of the epoll instance with index `index` ([`crate::epoll_sets`]).
#[inline]
pub(crate) fn epoll_set_users(index: u32) -> Option<&'static AtomicU64> {
    if first().is_none() {
        // Children forked from now on share the instance, so the users must lie in shared memory.
        map(0)?;
    }
    first_mapping()?.epoll_set_users.get(index as usize)
}

/// Returns a number for a new entry of an epoll set, never 0. A forked child's copy of the entry has the same
/// number.
pub(crate) fn number_epoll_entry() -> u64 {
    first_mapping().map_or(1, |first| first.epoll_entries.fetch_add(1, Ordering::Relaxed) + 2)
}

/// Returns the words with the users of all epoll instances.
pub(crate) fn each_epoll_set_users() -> impl Iterator<Item = &'static AtomicU64> {
    first_mapping().into_iter().flat_map(|first| &first.epoll_set_users)
}

/// Returns the connection with number `index` if it lies in the first chunk.
#[inline(always)]
pub(crate) fn conn_among_first(index: u32) -> Option<&'static Conn> {
    first()?.conns.get(index as usize)
}

/// Returns the connection with number `index`.
#[inline]
pub fn conn(index: u32) -> Option<&'static Conn> {
    let index = index as usize;
    if index < CHUNK {
        first().map(|chunk| &chunk.conns[index])
    } else {
        chunk(index / CHUNK).map(|chunk| &chunk.conns[index % CHUNK])
    }
}

/// Calls `each` for every connection of the family.
pub(crate) fn each_conn(mut each: impl FnMut(&Conn)) {
    for (_, chunk) in chunks() {
        chunk.conns.iter().filter(|conn| conn.phase() != Phase::Free).for_each(&mut each);
    }
}

/// Takes a free slot for a connection. Returns the slot's number and the slot.
pub fn take() -> Option<(u32, &'static Conn)> {
    search().or_else(|| {
        sweep();
        search()
    })
}

/// Frees the slots of connections whose holders have all died without a close.
#[cold]
pub(crate) fn sweep() {
    for (at, chunk) in chunks() {
        for (i, conn) in chunk.conns.iter().enumerate() {
            let generation = conn.generation();
            let used = chunk.header.used[i / 64].load(Ordering::Acquire) >> (i % 64) & 1;
            // A used slot without a holder belongs to a connection that is just being opened.
            let references = conn.references.load(Ordering::Acquire);
            if used != 0
                && references != 0
                && !process_slots::has_me(references)
                && !is_shared(conn)
            {
                reap((at * CHUNK + i) as u32, conn, generation);
            }
        }
    }
}

/// Ends the generation of a connection whose holders have all died without a close, and frees the slot. Does
/// nothing while a process holds the connection's lock to leave the connection. This process ends the generation
/// itself.
fn reap(index: u32, conn: &Conn, generation: u32) {
    let Some(_locked) = conn.lock_if_free() else { return };
    if conn.phase() != Phase::Free && conn.end(generation) {
        give_back(index);
    }
}

/// Takes the first free slot. Makes a new chunk if all others are full.
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

/// Frees slot `index`. The caller has already changed the slot's generation.
pub fn give_back(index: u32) {
    if let Some((word, bit)) = used(index) {
        word.fetch_and(!bit, Ordering::AcqRel);
    }
}

/// Returns the word and the bit that show if slot `index` is taken.
fn used(index: u32) -> Option<(&'static AtomicU64, u64)> {
    let (at, i) = (index as usize / CHUNK, index as usize % CHUNK);
    Some((&chunk(at)?.header.used[i / 64], 1 << (i % 64)))
}

/// A connection that this process gives up before it leaves the family's memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retired {
    /// The connection's slot.
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// Set if no forked relative holds the connection. Then the connection's slot in the family's memory becomes
    /// free.
    pub(crate) is_last: bool,
}

/// Gives this process its own memory in place of the memory that it shares with its forked relatives. Calls of
/// other threads may still use `retired` connections. So the new slots of these connections say that the
/// connections are on TCP, and these slots are not reused. All other slots are free.
///
/// Returns false if there is no memory for the new mappings.
pub(crate) fn leave(retired: &[Retired]) -> bool {
    let chunk_of = |base: usize| {
        chunks().find(|(_, chunk)| core::ptr::from_ref(*chunk).addr() == base).map(|(at, _)| at)
    };
    let mut renewed: Vec<(usize, Fd)> = Vec::new();
    let file = |base: usize, _len: usize| {
        let at = chunk_of(base)?;
        renewed.push((at, files::renew(at)?));
        renewed.last().map(|(_, file)| file.raw())
    };
    let fill = |base: usize, old: *const u8, new: *mut u8, len: usize| {
        let (old, new) = (Memory { base, at: old, len }, Memory { base, at: new, len });
        let number = chunk_of(base);
        if let Some(list) = process_slots::list().and_then(|list| new.counterpart(list)) {
            process_slots::begin_anew(list);
        }
        let schema = number.and_then(|at| Some((at, new.counterpart(&chunk(at)?.header.schema)?)));
        if let Some((at, schema)) = schema {
            files::describe(schema, at);
        }
        let Some(first) = first_mapping() else { return };
        if let Some(totals) = new.counterpart(&first.totals) {
            totals.page.begin();
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
        // End the generations now, because no thread of this process reads the old slots any more.
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
        stats::show(file.raw());
        files::keep(at, file, first().map(|chunk| &chunk.header.schema));
    }
    left
}

/// Drops the family's files if the family has no mapping. Called in a forked child.
pub(crate) fn born() {
    if first().is_none() {
        files::forget();
    }
}

/// Memory with the layout of one of the family's mappings, at another address.
struct Memory {
    /// Address of the family's mapping.
    base: usize,
    at: *const u8,
    len: usize,
}

impl Memory {
    /// Returns the object in this memory that corresponds to `one`, if `one` lies in the family's mapping.
    fn counterpart<T>(&self, one: &T) -> Option<&T> {
        let offset = core::ptr::from_ref(one).addr().checked_sub(self.base)?;
        if offset + size_of::<T>() > self.len {
            return None;
        }
        // SAFETY: the offset lies within memory that is as long as the mapping and has its layout. This memory is a
        // second mapping of the same pages, or zeroed memory that will replace them. The memory contains atomics,
        // and data of a lock's holder whose state is not copied; zeros are valid. The memory stays mapped while
        // `self` is used.
        Some(unsafe { &*self.at.add(offset).cast::<T>() })
    }
}

/// Reserves a process slot for a child, before the fork. Returns `None` if this process has nothing to share with a
/// child.
pub fn expect_child() -> Option<usize> {
    let child = expect()?;
    process_slots::is_next(child);
    Some(child.slot)
}

/// Reserves a process slot for a process that is about to join the family. Returns `None` if there is no family.
pub(crate) fn expect() -> Option<Expected> {
    let child = process_slots::expect()?;
    if child.is_known {
        for users in each_epoll_set_users().filter(|users| users.load(Ordering::Relaxed) != 0) {
            process_slots::strike(users, child.slot);
        }
        // Remove the slot's earlier process from the holders of its connections.
        for (at, chunk) in chunks() {
            for (w, word) in chunk.header.used.iter().enumerate() {
                let mut bits = word.load(Ordering::Acquire);
                while bits != 0 {
                    let i = w * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let conn = &chunk.conns[i];
                    conn.forget_waiting(child.slot);
                    let generation = conn.generation();
                    let (before, after) = process_slots::strike(&conn.references, child.slot);
                    // Reap now, because no process would ever notice that the connection has no holder.
                    if before != after && after.is_empty() {
                        reap((at * CHUNK + i) as u32, conn, generation);
                    }
                }
            }
        }
    }
    Some(child)
}

/// Returns true if other living processes hold `conn`. Removes dead processes from the holders of `conn`.
pub fn is_shared(conn: &Conn) -> bool {
    !is_known() || process_slots::others_live(&conn.references)
}
