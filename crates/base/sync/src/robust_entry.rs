//! Robust-list entries, which tell which threads live.
//!
//! A thread that takes one of Sovia's locks has an entry in a table. Every thread that may wait for the lock can
//! read this table. The lock holds the number and the generation of its owner's entry. The kernel marks the entry
//! when the thread ends (`robust_list`), so one load tells whether a lock's owner lives. The answer is exact in
//! every PID namespace, even after another thread has got the same id.
//!
//! There are two tables. `LOCAL` lies in this process's memory, and is for locks there. A forked child's copy
//! begins without the entries of its parent's other threads. The other table lies in memory that related
//! processes share, and is for locks there ([`share`]).
//!
//! Some threads have no entry, because the table is full or glibc's list is not at the expected place. A thread
//! in a signal handler that has interrupted glibc in a change of the list has none at that moment. Such a thread
//! is known by its kernel thread id, and counts as alive while a thread with this id exists.

use crate::robust_list::{self, Entry, Linked, OWNER_DIED, TID};
use crate::shim::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::state::State;
use crate::words::Words;
use core::cell::Cell;
use core::sync::atomic::AtomicPtr;
use sovia_sys::call;

/// Set in an owner word that names a thread by its thread id.
const BY_ID: u32 = 1 << 30;
const SLOT_BITS: u32 = 14;
const SLOT: u32 = (1 << SLOT_BITS) - 1;
const GENERATION: u32 = 0xffff;

/// Number of entries in a table that processes share.
pub const SHARED: usize = 1 << 13;
const OWN: usize = 1 << 11;
const _: () = assert!(SHARED <= 1 << SLOT_BITS && OWN <= 1 << SLOT_BITS);

/// Table of robust-list entries. All-zero memory is an empty table.
#[derive(Debug)]
#[repr(C)]
pub struct Table<const N: usize> {
    /// Index at which the search for a free entry begins, modulo the table's length.
    next: AtomicU32,
    entries: [Entry; N],
}

#[cfg(not(loom))]
sovia_sys::tables! {
    /// Entries for locks in this process's memory.
    static LOCAL: Table<OWN> = Table::new();
    /// Hazard words of the threads with these entries.
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
/// The table for locks in memory that processes share; null before [`share`].
static FAMILY: AtomicPtr<Table<SHARED>> = AtomicPtr::new(core::ptr::null_mut());

/// Finds the place where glibc keeps its robust lists. The thread that runs the constructors calls this once,
/// early.
pub fn start() {
    robust_list::discover();
}

/// Sets the table for shared locks. All processes of a family must map `table` at the same address.
pub fn share(table: &'static Table<SHARED>) {
    FAMILY.store(core::ptr::from_ref(table).cast_mut(), Ordering::Release);
}

fn family() -> Option<&'static Table<SHARED>> {
    // SAFETY: the pointer is null, or comes from the `'static` reference that `share` got.
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

    /// Takes a free entry for the calling thread, whose thread id is `id`.
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
            // SYNC: one exchange changes both halves of the word, so owner words of the old generation are void
            // from this moment. The kernel's own ordering at a thread's end publishes the stores of the entry's
            // last owner to the thread that takes over its locks.
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

    /// Copies the entries of this process's living threads from `old`. This table must be all zero. Its memory
    /// will replace `old`'s memory, into which the threads' robust lists lead.
    #[cfg(not(loom))]
    pub fn take_over(&self, old: &Table<N>) {
        self.next.store(old.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.catch_up(old);
    }

    /// Copies entries again, a moment after the replacement, for threads that have entered `old` since
    /// [`Table::take_over`].
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

    /// Returns true if the thread with this owner word lives.
    fn lives(&self, word: u32) -> bool {
        let Some(entry) = self.entries.get((word & SLOT) as usize) else { return false };
        // SYNC: pairs with the kernel's exchange of the word when the thread ends. The stores that this thread
        // made under its locks are then visible to the thread that takes over the locks.
        let seen = entry.word.load(Ordering::Acquire);
        is_owned(seen) && (seen >> 32) as u32 == word >> SLOT_BITS & GENERATION
    }

    /// Returns true if the thread `word`, which has ended, was certainly outside the lock at address `place`.
    fn ended_outside(&self, word: u32, place: usize) -> bool {
        let Some(entry) = self.entries.get((word & SLOT) as usize) else { return false };
        // SYNC: pairs with the store in `begin_inside` by the entry's next owner. If this load returns a value of
        // that owner, the check of the generation below fails.
        let inside = entry.inside.load(Ordering::Acquire);
        let seen = entry.word.load(Ordering::Acquire);
        inside != place && (seen >> 32) as u32 == word >> SLOT_BITS & GENERATION
    }

    /// Returns true if the entry of `word` says that its owner holds the lock at `place` by bias.
    fn is_inside(&self, word: u32, place: usize) -> bool {
        let entry = self.entries.get((word & SLOT) as usize);
        // SYNC: pairs with the store by which the owner leaves the lock, and with the store of the entry's next
        // owner.
        entry.is_some_and(|entry| entry.inside.load(Ordering::Acquire) == place)
    }

    /// Clears and returns the word in which the calling thread names the lock that it holds by bias. The thread
    /// has just taken the entry of `word`.
    fn begin_inside(&self, word: u32) -> *const AtomicUsize {
        let inside = &self.entries[(word & SLOT) as usize].inside;
        // SYNC: a thread that reads this 0 also sees the new generation. So it does not credit the new owner with
        // a value that the last owner stored.
        inside.store(0, Ordering::Release);
        core::ptr::from_ref(inside)
    }
}

/// Marks the calling thread's entry, as the kernel does when a thread ends.
#[cfg(loom)]
pub fn ends() {
    crate::state::current(|state| {
        let entry = &LOCAL.entries[(state.local.get() & SLOT) as usize];
        let mark = |seen: u64| Some(seen & !TID | OWNER_DIED);
        let marked = entry.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, mark);
        assert!(marked.is_ok_and(is_owned), "a thread ends twice");
    });
}

/// Returns true if the word `seen` of an entry names a living thread.
fn is_owned(seen: u64) -> bool {
    seen & OWNER_DIED == 0 && seen & TID != 0
}

fn next_generation(generation: u32) -> u32 {
    // Never 0, so that no owner word is 0, which means "no owner".
    match (generation + 1) & GENERATION {
        0 => 1,
        next => next,
    }
}

fn word(slot: u32, generation: u32) -> u32 {
    generation << SLOT_BITS | slot
}

/// Returns the owner word that names the calling thread by its thread id.
fn by_id(state: &State) -> u32 {
    BY_ID | thread_id(state) as u32 & (BY_ID - 1)
}

/// Returns the calling thread's id, which is cached after the first call.
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

/// Takes an entry of `table` for the calling thread, and returns the thread's owner word from now on. Calls `own`
/// with the word if the thread has got an entry. In a signal handler that has interrupted glibc or this function,
/// returns the thread id's word and caches nothing.
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
    // SYNC: pairs with the Acquire fence before `lives`. A thread that finds this word in a lock also finds the
    // entry taken. The fence is executed here, once per thread, so that taking a lock needs none.
    fence(Ordering::Release);
    cache.set(word);
    state.registering.set(0);
    word
}

/// Result of [`Table::register`].
enum Registered {
    As(u32),
    /// The table has no free entry, or the place of the robust list is unknown.
    Full,
    /// The list cannot be changed at this moment. A later call may succeed.
    NotNow,
}

/// Returns the owner word of the calling thread for locks in this process's memory.
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
        // The thread that had the entry before has ended, so its hazards are void.
        USED[(word & SLOT) as usize].clear();
        state.noted.set(0);
        state.local_inside.set(LOCAL.begin_inside(word));
    })
}

/// Returns the hazard words of the calling thread; `None` if the thread has no entry.
#[inline(always)]
pub(crate) fn words(state: &State) -> Option<&'static Words> {
    let me = local(state);
    if me & BY_ID != 0 { None } else { USED.get((me & SLOT) as usize) }
}

/// Calls `each` with the owner word and the hazard words of every living thread that has an entry.
pub(crate) fn each_words(mut each: impl FnMut(u32, &Words)) {
    let ever = LOCAL.next.load(Ordering::Relaxed) as usize;
    for (slot, (entry, words)) in LOCAL.entries.iter().zip(USED.iter()).enumerate().take(ever) {
        // SYNC: pairs with the kernel's exchange of the word when the thread ends.
        let seen = entry.word.load(Ordering::Acquire);
        if is_owned(seen) {
            each(word(slot as u32, (seen >> 32) as u32), words);
        }
    }
}

/// Returns the owner word of the calling thread for locks in memory that processes share.
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

/// Returns true if the thread `owner`, which owns a lock in this process's memory, lives.
pub(crate) fn local_lives(owner: u32) -> bool {
    if owner & BY_ID != 0 { id_lives(owner) } else { LOCAL.lives(owner) }
}

/// Returns true if the thread `owner`, which owns a lock in memory that processes share, lives.
pub(crate) fn shared_lives(owner: u32) -> bool {
    if owner & BY_ID != 0 {
        return id_lives(owner);
    }
    // Without the table nothing is known about the owner, and this process has written no such word.
    family().is_none_or(|table| table.lives(owner))
}

/// Returns the word in which the calling thread names a lock that it holds by bias. For locks in this process's
/// memory. Returns `None` if the thread has no entry.
#[inline(always)]
pub(crate) fn local_inside(state: &State) -> Option<&'static AtomicUsize> {
    // SAFETY: the pointer is null, or points into `LOCAL`, which is never freed.
    unsafe { state.local_inside.get().as_ref() }
}

/// Like [`local_inside`], for locks in memory that processes share.
#[inline(always)]
pub(crate) fn shared_inside(state: &State) -> Option<&'static AtomicUsize> {
    // SAFETY: the pointer is null, or points into the `'static` table that `share` got.
    unsafe { state.family_inside.get().as_ref() }
}

/// Returns true if the entry of `owner`, a thread of this process, names the lock at `place`. The answer holds
/// only if the thread is found alive after this call.
pub(crate) fn is_inside_local(owner: u32, place: usize) -> bool {
    LOCAL.is_inside(owner, place)
}

/// Like [`is_inside_local`], for an entry in memory that processes share.
pub(crate) fn is_inside_shared(owner: u32, place: usize) -> bool {
    family().is_some_and(|table| table.is_inside(owner, place))
}

/// Returns true if `owner`, a thread of this process that has ended, was certainly outside the lock at `place`.
pub(crate) fn ended_outside_local(owner: u32, place: usize) -> bool {
    owner & BY_ID == 0 && LOCAL.ended_outside(owner, place)
}

/// Like [`ended_outside_local`], for an entry in memory that processes share.
pub(crate) fn ended_outside_shared(owner: u32, place: usize) -> bool {
    owner & BY_ID == 0 && family().is_some_and(|table| table.ended_outside(owner, place))
}

fn id_lives(owner: u32) -> bool {
    call::task_exists((owner & (BY_ID - 1)) as i32)
}

/// Corrects the entries in a forked child, which has one thread. Marks the entries of the parent's other threads
/// as ended, and puts this thread's new id into its own entry.
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
            // libc has emptied the child's robust list, so the entry is linked again.
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
