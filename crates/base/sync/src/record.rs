//! Thread records: which threads live.
//!
//! A thread that takes one of Sovia's locks has a record, in a table that every thread which may wait for the
//! lock can see, and the lock holds the record's number and generation. The kernel marks the record when the
//! thread ends (`robust_list`), so whether a lock's owner lives is one load. It is exact in
//! every PID namespace, and whatever thread gets the id next.
//!
//! There are two tables. `LOCAL` lies in this process's memory, for locks in this process's memory: a
//! forked child's copy of it begins without the other threads of its parent. The other lies in memory
//! that related processes share ([`share`]), for locks that lie there.
//!
//! A thread for which there is no record (the table is full, glibc's list is not where it is expected,
//! or a signal handler has interrupted glibc in a change of it) is known by its thread id, as the kernel
//! calls it, and lives as long as that exists.

use crate::robust_list::{self, Entry, Linked, OWNER_DIED, TID};
use crate::shim::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::state::State;
use crate::words::Words;
use core::cell::Cell;
use core::sync::atomic::AtomicPtr;
use sovia_sys::call;

/// Set in a word that names a thread by its id.
const BY_ID: u32 = 1 << 30;
const SLOT_BITS: u32 = 14;
const SLOT: u32 = (1 << SLOT_BITS) - 1;
const GENERATION: u32 = 0xffff;

/// Records in a table that processes share.
pub const SHARED: usize = 1 << 13;
const OWN: usize = 1 << 11;
const _: () = assert!(SHARED <= 1 << SLOT_BITS && OWN <= 1 << SLOT_BITS);

/// A table of records. All-zero memory is an empty one.
#[derive(Debug)]
#[repr(C)]
pub struct Table<const N: usize> {
    /// Where the search for a free record begins.
    next: AtomicU32,
    entries: [Entry; N],
}

#[cfg(not(loom))]
sovia_sys::tables! {
    /// The records for locks in this process's memory.
    static LOCAL: Table<OWN> = Table::new();
    /// Words that the threads with those records use without a lock.
    static USED: [Words; OWN] = [const { Words::new() }; OWN];
}
#[cfg(loom)]
loom::lazy_static! {
    static ref LOCAL: Table<4> = Table::new();
}
#[cfg(loom)]
loom::lazy_static! {
    static ref USED: [Words; 4] = core::array::from_fn(|_| Words::new());
}
/// The records for locks in memory that processes share.
static FAMILY: AtomicPtr<Table<SHARED>> = AtomicPtr::new(core::ptr::null_mut());

/// Finds out how glibc keeps its threads. Once, early, by the thread that runs the constructors.
pub fn start() {
    robust_list::discover();
}

/// Keeps the table that all processes of a family have at the same address.
pub fn share(table: &'static Table<SHARED>) {
    FAMILY.store(core::ptr::from_ref(table).cast_mut(), Ordering::Release);
}

fn family() -> Option<&'static Table<SHARED>> {
    // SAFETY: null, or the table that `share` was given for good.
    unsafe { FAMILY.load(Ordering::Acquire).as_ref() }
}

impl<const N: usize> Table<N> {
    #[cfg(not(loom))]
    const fn new() -> Table<N> {
        Table { next: AtomicU32::new(0), entries: [const { Entry::new() }; N] }
    }

    #[cfg(loom)]
    fn new() -> Table<N> {
        Table { next: AtomicU32::new(0), entries: core::array::from_fn(|_| Entry::new()) }
    }

    /// Takes a record for the calling thread; if there is one.
    fn register(&'static self, id: i32) -> Registered {
        let id = id as u32 as u64 & TID;
        for _ in 0..N {
            let slot = self.next.fetch_add(1, Ordering::Relaxed) as usize % N;
            let entry = &self.entries[slot];
            let seen = entry.word.load(Ordering::Acquire);
            if is_owned(seen) {
                continue;
            }
            let generation = next_generation((seen >> 32) as u32);
            let taken = u64::from(generation) << 32 | id;
            // SYNC: what the record's last owner did before it ended is visible to the one that takes
            // over its locks by the kernel's own ordering; here the two halves change together, so that
            // words with the old generation are void from the moment at which the record is taken.
            let claim = || {
                entry
                    .word
                    .compare_exchange(seen, taken, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            };
            match robust_list::link(entry, claim) {
                Linked::Yes => return Registered::As(word(slot as u32, generation)),
                Linked::Taken => {}
                Linked::NotNow => return Registered::NotNow,
                Linked::Unknown => return Registered::Full,
            }
        }
        Registered::Full
    }

    /// Makes this table, all zero, say what `old` says of this process's threads: its memory is about to
    /// take the place of `old`'s, and threads' lists lead there.
    #[cfg(not(loom))]
    pub fn take_over(&self, old: &Table<N>) {
        self.next.store(old.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.catch_up(old);
    }

    /// The same a moment after it has: for threads that have just come into `old`.
    #[cfg(not(loom))]
    pub fn catch_up(&self, old: &Table<N>) {
        for (new, old) in self.entries.iter().zip(&old.entries) {
            let seen = old.word.load(Ordering::Acquire);
            if is_owned(seen)
                && call::is_own_thread((seen & TID) as i32)
                && new.word.load(Ordering::Acquire) == 0
            {
                new.relink_as(old);
                let _ = new.word.compare_exchange(0, seen, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }

    /// Whether the thread of that record lives.
    fn lives(&self, word: u32) -> bool {
        let Some(entry) = self.entries.get((word & SLOT) as usize) else { return false };
        // SYNC: pairs with the kernel's exchange at the thread's end: what that thread wrote under its
        // locks is visible to the one that takes them over.
        let seen = entry.word.load(Ordering::Acquire);
        is_owned(seen) && (seen >> 32) as u32 == word >> SLOT_BITS & GENERATION
    }

    /// Whether the thread of that record, which has ended, was outside the lock at `place`, for certain.
    fn ended_outside(&self, word: u32, place: usize) -> bool {
        let Some(entry) = self.entries.get((word & SLOT) as usize) else { return false };
        // SYNC: pairs with the next owner's store, which comes after it has taken the record.
        let inside = entry.inside.load(Ordering::Acquire);
        let seen = entry.word.load(Ordering::Acquire);
        inside != place && (seen >> 32) as u32 == word >> SLOT_BITS & GENERATION
    }

    /// Whether the record names the lock at `place`, which favours its owner, as held by it.
    fn is_inside(&self, word: u32, place: usize) -> bool {
        let entry = self.entries.get((word & SLOT) as usize);
        // SYNC: pairs with the store by which the thread leaves, and with that of the record's next owner.
        entry.is_some_and(|entry| entry.inside.load(Ordering::Acquire) == place)
    }

    /// The word in which the calling thread names such a lock from now on: of the record that it has just got.
    fn begin_inside(&self, word: u32) -> *const AtomicUsize {
        let inside = &self.entries[(word & SLOT) as usize].inside;
        // SYNC: a thread that sees this sees the record taken: what its last owner stored belongs to another life.
        inside.store(0, Ordering::Release);
        core::ptr::from_ref(inside)
    }
}

/// What the kernel does when the calling thread ends.
#[cfg(loom)]
pub fn ends() {
    crate::state::current(|state| {
        let entry = &LOCAL.entries[(state.local.get() & SLOT) as usize];
        let mark = |seen: u64| Some(seen & !TID | OWNER_DIED);
        let marked = entry.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, mark);
        assert!(marked.is_ok_and(is_owned), "a thread ends twice");
    });
}

/// Whether a record is some living thread's.
fn is_owned(seen: u64) -> bool {
    seen & OWNER_DIED == 0 && seen & TID != 0
}

fn next_generation(generation: u32) -> u32 {
    // Never 0, so that no word is 0, which stands for no owner.
    match (generation + 1) & GENERATION {
        0 => 1,
        next => next,
    }
}

fn word(slot: u32, generation: u32) -> u32 {
    generation << SLOT_BITS | slot
}

/// The calling thread, by its id.
fn by_id(state: &State) -> u32 {
    BY_ID | thread_id(state) as u32 & (BY_ID - 1)
}

/// The calling thread's id, cached.
pub(crate) fn thread_id(state: &State) -> i32 {
    match state.tid.get() {
        0 => {
            let id = robust_list::thread_id();
            state.tid.set(id);
            id
        }
        id => id,
    }
}

/// Enters the calling thread into a table; the word by which it is known from now on. In a handler that
/// has interrupted glibc, or just this, it is known by its id for once. `own` is called with the word of a record.
#[inline(always)]
fn enter<const N: usize>(
    table: &'static Table<N>,
    state: &State,
    cache: &Cell<u32>,
    own: impl FnOnce(u32),
) -> u32 {
    if state.registering.replace(1) != 0 {
        return by_id(state);
    }
    let word = match table.register(thread_id(state)) {
        Registered::As(word) => word,
        Registered::Full => by_id(state),
        Registered::NotNow => {
            state.registering.set(0);
            return by_id(state);
        }
    };
    if word & BY_ID == 0 {
        own(word);
    }
    // SYNC: with the fence before `lives` is asked: a thread that finds this word in a lock finds the record
    // taken. Here, once for each thread, so that taking a lock needs no fence for it.
    fence(Ordering::Release);
    cache.set(word);
    state.registering.set(0);
    word
}

/// What has come of [`Table::register`].
enum Registered {
    As(u32),
    /// There is no record to be had.
    Full,
    /// In a moment there may be one.
    NotNow,
}

/// The word by which the calling thread owns locks in memory of this process.
#[inline(always)]
pub(crate) fn local(state: &State) -> u32 {
    match state.local.get() {
        0 => enter_local(state),
        word => word,
    }
}

#[cold]
#[inline(never)]
fn enter_local(state: &State) -> u32 {
    enter(&LOCAL, state, &state.local, |word| {
        // The thread that had the record before has ended.
        USED[(word & SLOT) as usize].clear();
        state.noted.set(0);
        state.local_inside.set(LOCAL.begin_inside(word));
    })
}

/// The calling thread's words for what it uses; if it has a record.
#[inline(always)]
pub(crate) fn words(state: &State) -> Option<&'static Words> {
    let me = local(state);
    if me & BY_ID != 0 { None } else { USED.get((me & SLOT) as usize) }
}

/// Calls `each` with every living thread that has words: the word by which it is known, and those.
pub(crate) fn each_words(mut each: impl FnMut(u32, &Words)) {
    let ever = LOCAL.next.load(Ordering::Relaxed) as usize;
    for (slot, (entry, words)) in LOCAL.entries.iter().zip(USED.iter()).enumerate().take(ever) {
        // SYNC: pairs with the kernel's exchange at the thread's end.
        let seen = entry.word.load(Ordering::Acquire);
        if is_owned(seen) {
            each(word(slot as u32, (seen >> 32) as u32), words);
        }
    }
}

/// The word by which the calling thread owns locks in memory that processes share.
#[inline(always)]
pub(crate) fn shared(state: &State) -> u32 {
    match state.family.get() {
        0 => enter_shared(state),
        word => word,
    }
}

#[cold]
#[inline(never)]
fn enter_shared(state: &State) -> u32 {
    match family() {
        Some(table) => enter(table, state, &state.family, |word| {
            state.family_inside.set(table.begin_inside(word));
        }),
        None => by_id(state),
    }
}

/// Whether the thread that owns a lock in memory of this process lives.
pub(crate) fn local_lives(owner: u32) -> bool {
    if owner & BY_ID != 0 { id_lives(owner) } else { LOCAL.lives(owner) }
}

/// Whether the thread that owns a lock in memory that processes share lives.
pub(crate) fn shared_lives(owner: u32) -> bool {
    if owner & BY_ID != 0 {
        return id_lives(owner);
    }
    // Without the table nothing is known, and nothing could have been written.
    family().is_none_or(|table| table.lives(owner))
}

/// The calling thread's word for locks in memory of this process that favour it; if it has a record.
#[inline(always)]
pub(crate) fn local_inside(state: &State) -> Option<&'static AtomicUsize> {
    // SAFETY: null, or a word of the table's, which stays for good.
    unsafe { state.local_inside.get().as_ref() }
}

/// The same for locks in memory that processes share.
#[inline(always)]
pub(crate) fn shared_inside(state: &State) -> Option<&'static AtomicUsize> {
    // SAFETY: null, or a word of the table that `share` was given for good.
    unsafe { state.family_inside.get().as_ref() }
}

/// Whether the record of a thread of this process names the lock at `place`; true if it lives after the look.
pub(crate) fn is_inside_local(owner: u32, place: usize) -> bool {
    LOCAL.is_inside(owner, place)
}

/// The same of a record in memory that processes share.
pub(crate) fn is_inside_shared(owner: u32, place: usize) -> bool {
    family().is_some_and(|table| table.is_inside(owner, place))
}

/// Whether a thread of this process that has ended was outside the lock at `place`, for certain.
pub(crate) fn ended_outside_local(owner: u32, place: usize) -> bool {
    owner & BY_ID == 0 && LOCAL.ended_outside(owner, place)
}

/// The same of a thread in memory that processes share.
pub(crate) fn ended_outside_shared(owner: u32, place: usize) -> bool {
    owner & BY_ID == 0 && family().is_some_and(|table| table.ended_outside(owner, place))
}

fn id_lives(owner: u32) -> bool {
    call::task_exists((owner & (BY_ID - 1)) as i32)
}

/// In a forked child, which has one thread: the records of its parent's others are void, and this
/// thread's own get its new id.
pub(crate) fn forked(state: &State) {
    state.family.set(0);
    state.family_inside.set(core::ptr::null());
    state.registering.set(0);
    let mine = state.local.get();
    let id = thread_id(state) as u32 as u64 & TID;
    let used = LOCAL.next.load(Ordering::Relaxed) as usize;
    for (slot, entry) in LOCAL.entries.iter().enumerate().take(used) {
        let seen = entry.word.load(Ordering::Relaxed);
        if !is_owned(seen) {
            continue;
        }
        let generation = (seen >> 32) as u32;
        if word(slot as u32, generation) == mine {
            // libc has emptied the list for the child.
            let taken = u64::from(generation) << 32 | id;
            let renamed = || {
                entry.word.store(taken, Ordering::Release);
                true
            };
            if robust_list::link(entry, renamed) != Linked::Yes {
                renamed();
            }
        } else {
            entry.word.store(seen & !TID | OWNER_DIED, Ordering::Release);
        }
    }
}
