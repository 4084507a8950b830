//! Hazards, which keep an object from being freed while a thread uses it without a lock.
//!
//! Each thread with a robust-list entry ([`crate::robust_entry`]) has a few words beside the entry. In each of these
//! words, a *hazard*, the thread writes the address of an object that it uses. A thread that wants to free an
//! object first makes the object impossible to find. Then it checks whether the hazards of any living thread name
//! the object ([`is_used`]), and frees the object only if none does. A thread may use an object for any length of
//! time. A thread that has ended, in whatever way, uses nothing any more.
//!
//! There are two kinds of use:
//!
//! - [`publish`]: the thread looks an object up without a lock. The thread writes the address into a hazard and
//!   then checks that it can still find the object. Each of the two threads must see the first step of the other
//!   thread. Using is frequent and freeing is rare ([`crate::fences`]), so the freeing thread must call
//!   [`settle`] before it asks.
//! - [`Waits`]: the thread holds the lock that protects the object from removal, and is about to wait for the
//!   object without this lock. The lock orders the two threads. A signal handler may leave such a wait by
//!   `longjmp`. The thread's next wait then clears the hazards of the wait that was left.

#[cfg(all(test, not(loom)))]
mod tests;

use crate::fences::{self, Reach};
use crate::rank;
use crate::robust_entry;
use crate::shim::{AtomicUsize, Ordering};
use crate::state::{self, State};
use crate::value::RobustBox;
use crate::words::{FOR_USES, FOR_WAITS, NOTHING};
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::sync::atomic::compiler_fence;

/// Uses that found no free hazard word: the address, and the user's owner word.
#[cfg(not(loom))]
static FURTHER: RobustBox<Vec<(usize, u32)>, { rank::USED }> = RobustBox::new(Vec::new());
#[cfg(loom)]
loom::lazy_static! {
    static ref FURTHER: RobustBox<Vec<(usize, u32)>, { rank::USED }> = RobustBox::new(Vec::new());
}
/// Set once an entry has been added to [`FURTHER`]. Always set under loom.
static EVER_FURTHER: core::sync::atomic::AtomicBool =
    core::sync::atomic::AtomicBool::new(cfg!(loom));

/// Takes a free hazard word of the calling thread, out of the words in the mask `among`. Returns the word and its
/// bit.
#[inline(always)]
fn take(state: &State, among: u32) -> Option<(&'static AtomicUsize, u32)> {
    let words = robust_entry::words(state)?;
    let free = !state.noted.get() & among;
    if free == 0 {
        return None;
    }
    let bit = free & free.wrapping_neg();
    state.noted.set(state.noted.get() | bit);
    Some((words.at(bit.trailing_zeros()), bit))
}

/// One use of an object, announced until this value is dropped.
#[derive(Debug)]
pub struct Hazard {
    place: usize,
    /// The hazard word and its bit; `None` if the use is in [`FURTHER`].
    word: Option<(&'static AtomicUsize, u32)>,
    /// Makes this type neither `Send` nor `Sync`: the hazard belongs to the thread that made it.
    _here: PhantomData<*mut ()>,
}

/// Announces that the calling thread uses the object at `place` (not 0). The announcement is visible to a freeing
/// thread before the caller makes its later loads.
#[inline]
pub fn publish(place: usize) -> Hazard {
    state::current(|state| {
        let word = take(state, FOR_USES);
        let Some((at, _)) = word else { return publish_further(state, place) };
        at.store(place, Ordering::Relaxed);
        // SYNC: pairs with the fence in `settle`.
        fences::light();
        Hazard { place, word, _here: PhantomData }
    })
}

#[cold]
#[inline(never)]
fn publish_further(state: &State, place: usize) -> Hazard {
    // SYNC: a freeing thread takes the list's lock after it has made the object impossible to find. Either the
    // freeing thread finds `place` in the list, or the caller looks the object up after releasing the lock, and
    // finds no object.
    note_further(state, place);
    Hazard { place, word: None, _here: PhantomData }
}

fn note_further(state: &State, place: usize) {
    EVER_FURTHER.store(true, core::sync::atomic::Ordering::SeqCst);
    let me = robust_entry::local(state);
    FURTHER.with(|list| {
        list.retain(|&(_, owner)| robust_entry::local_lives(owner));
        list.push((place, me));
    });
}

fn strike_further(state: &State, place: usize) {
    let me = robust_entry::local(state);
    FURTHER.with(|list| {
        if let Some(at) = list.iter().rposition(|&entry| entry == (place, me)) {
            list.swap_remove(at);
        }
    });
}

impl Hazard {
    /// Announces the use of the object at `place` (not 0), and ends the use of the former object. Has the same order as
    /// [`publish`].
    #[inline]
    pub fn change_to(&mut self, place: usize) {
        match self.word {
            Some((at, _)) => {
                // SYNC: Release pairs with the load in `Words::names`, for the former object.
                at.store(place, Ordering::Release);
                // SYNC: pairs with the fence in `settle`.
                fences::light();
                self.place = place;
            }
            None => *self = publish(place),
        }
    }
}

impl Drop for Hazard {
    #[inline]
    fn drop(&mut self) {
        state::current(|state| match self.word {
            Some((word, bit)) => {
                // SYNC: pairs with the load in `Words::names`.
                word.store(NOTHING, Ordering::Release);
                compiler_fence(Ordering::SeqCst);
                state.noted.set(state.noted.get() & !bit);
            }
            None => strike_further(state, self.place),
        });
    }
}

/// Objects for which a thread waits without a lock, until this value is dropped.
#[derive(Debug)]
pub struct Waits {
    /// Bits of the hazard words that this wait has taken.
    own: Cell<u32>,
    further: RefCell<Vec<usize>>,
    /// Makes this type neither `Send` nor `Sync`: the wait belongs to the thread that made it.
    _here: PhantomData<*mut ()>,
}

impl Waits {
    /// Begins a wait that uses nothing yet. `outermost`: the calling thread runs no signal handler. So the
    /// program has left all other waits of this thread by `longjmp`, and this call clears their hazards.
    #[inline]
    pub fn begin(outermost: bool) -> Waits {
        if outermost {
            state::current(forget);
        }
        Waits { own: Cell::new(0), further: RefCell::default(), _here: PhantomData }
    }

    /// Announces that the wait uses the object at `place` (not 0). The caller holds a lock that keeps the object
    /// from being freed.
    #[inline]
    pub fn keep(&self, place: usize) {
        if self.names(place) {
            return;
        }
        state::current(|state| match take(state, FOR_WAITS) {
            Some((word, bit)) => {
                self.own.set(self.own.get() | bit);
                // SYNC: the freeing thread takes the caller's lock after the caller.
                word.store(place, Ordering::Relaxed);
            }
            None => self.keep_further(state, place),
        });
    }

    #[cold]
    fn keep_further(&self, state: &State, place: usize) {
        note_further(state, place);
        self.further.borrow_mut().push(place);
    }

    #[inline]
    fn names(&self, place: usize) -> bool {
        let mut bits = self.own.get();
        let in_words = bits != 0
            && state::current(|state| {
                robust_entry::words(state).is_some_and(|words| {
                    core::iter::from_fn(|| {
                        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                        bits &= bits - 1;
                        Some(words.at(bit))
                    })
                    .any(|word| word.load(Ordering::Relaxed) == place)
                })
            });
        in_words || self.further.borrow().contains(&place)
    }
}

#[inline]
fn forget(state: &State) {
    let left = state.noted.get() & FOR_WAITS;
    if left != 0 {
        end(state, left);
    }
    if EVER_FURTHER.load(core::sync::atomic::Ordering::Relaxed) {
        let me = robust_entry::local(state);
        FURTHER.with(|list| list.retain(|&(_, owner)| owner != me));
    }
}

/// Clears the calling thread's hazard words with these bits.
#[inline]
fn end(state: &State, mut bits: u32) {
    let Some(words) = robust_entry::words(state) else { return };
    let all = bits;
    while bits != 0 {
        // SYNC: pairs with the load in `Words::names`.
        words.at(bits.trailing_zeros()).store(NOTHING, Ordering::Release);
        bits &= bits - 1;
    }
    compiler_fence(Ordering::SeqCst);
    state.noted.set(state.noted.get() & !all);
}

impl Drop for Waits {
    #[inline]
    fn drop(&mut self) {
        state::current(|state| {
            if self.own.get() != 0 {
                end(state, self.own.get());
            }
            self.further.get_mut().iter().for_each(|&place| strike_further(state, place));
            // SYNC: pairs with the fence in `settle`. What this thread reads after its wait is at least as new as
            // the stores of a thread that still found these hazards.
            fences::light();
        });
    }
}

/// Orders this thread with all threads that announce uses. [`is_used`] will find every hazard that a thread wrote
/// before this call. A thread that writes a hazard later will see the caller's earlier stores. Returns false if
/// the fence failed: then the caller must free nothing.
#[must_use]
pub fn settle() -> bool {
    fences::heavy(Reach::Process)
}

/// Returns true if a thread of this process uses the object at `place`. The caller must first make the object
/// impossible to find, and then call [`settle`].
pub fn is_used(place: usize) -> bool {
    let mut used = false;
    robust_entry::each_words(|_, words| used |= words.names(place));
    used || is_used_further(place)
}

fn is_used_further(place: usize) -> bool {
    FURTHER.with(|list| {
        list.iter().any(|&(used, owner)| used == place && robust_entry::local_lives(owner))
    })
}

/// A thread that uses an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User(u32);

impl User {
    /// Returns the calling thread.
    pub fn me() -> User {
        User(state::current(robust_entry::local))
    }

    /// Returns the thread as a number, for a word that another thread reads.
    pub fn word(self) -> u32 {
        self.0
    }

    /// Converts the number from [`User::word`] back.
    pub fn from_word(word: u32) -> User {
        User(word)
    }

    /// Returns true if the thread lives.
    pub fn lives(self) -> bool {
        robust_entry::local_lives(self.0)
    }
}

/// Returns the threads that use the object at `place`, each once. The caller has called [`settle`].
pub fn users(place: usize) -> Vec<User> {
    let mut users = Vec::new();
    robust_entry::each_words(|owner, words| {
        if words.names(place) {
            users.push(User(owner));
        }
    });
    FURTHER.with(|list| {
        for &(used, owner) in list.iter() {
            if used == place && robust_entry::local_lives(owner) && !users.contains(&User(owner)) {
                users.push(User(owner));
            }
        }
    });
    users
}

/// Takes the list's lock for the time of a fork, so that the child gets a complete list.
pub fn hold() {
    FURTHER.hold();
}

/// Releases the list's lock after a fork, in parent and child.
pub fn release() {
    FURTHER.release();
}
