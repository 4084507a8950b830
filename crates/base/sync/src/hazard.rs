//! What threads use without a lock: so that nothing is freed under a thread that uses it.
//!
//! Each thread with a record ([`crate::record`]) has a few words beside it, and writes there what it uses,
//! by address: a *hazard*. A thread that wants to free something first sees to it that no thread can find
//! it any more, then asks whether any living thread's words name it ([`is_used`]), and frees it only if
//! none does. Nothing here depends on how long a thread uses what it has found, and a thread that ends,
//! in whatever way, uses nothing any more.
//!
//! There are two kinds of use:
//!
//! - [`publish`]: the thread looks something up without a lock. It writes the address down and then looks
//!   again whether the thing can still be found. Each of the two threads must see what the other one did
//!   first. Using is frequent and freeing is rare ([`crate::fences`]): the thread that frees must call
//!   [`settle`] before it asks.
//! - [`Waits`]: the thread holds the lock under which the thing cannot go, and is to wait for it without
//!   that lock. The lock orders the two threads. A signal handler may leave such a wait by `longjmp`: the
//!   thread's next wait forgets what that one had written.

#[cfg(all(test, not(loom)))]
mod tests;

use crate::fences::{self, Reach};
use crate::rank;
use crate::record;
use crate::shim::{AtomicUsize, Ordering};
use crate::state::{self, State};
use crate::value::RobustBox;
use crate::words::{FOR_USES, FOR_WAITS, NOTHING};
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::sync::atomic::compiler_fence;

/// What found no word, with the word by which its thread is known.
#[cfg(not(loom))]
static FURTHER: RobustBox<Vec<(usize, u32)>, { rank::USED }> = RobustBox::new(Vec::new());
#[cfg(loom)]
loom::lazy_static! {
    static ref FURTHER: RobustBox<Vec<(usize, u32)>, { rank::USED }> = RobustBox::new(Vec::new());
}
/// Whether anything has ever been put there.
static EVER_FURTHER: core::sync::atomic::AtomicBool =
    core::sync::atomic::AtomicBool::new(cfg!(loom));

/// A free word of the calling thread's, which is its own from here on.
#[inline(always)]
fn take(state: &State, among: u32) -> Option<(&'static AtomicUsize, u32)> {
    let words = record::words(state)?;
    let free = !state.noted.get() & among;
    if free == 0 {
        return None;
    }
    let bit = free & free.wrapping_neg();
    state.noted.set(state.noted.get() | bit);
    Some((words.at(bit.trailing_zeros()), bit))
}

/// Something is written down as in use, until this is dropped.
#[derive(Debug)]
pub struct Hazard {
    place: usize,
    /// Its word, and the word's bit.
    word: Option<(&'static AtomicUsize, u32)>,
    /// It belongs to the thread that made it.
    _here: PhantomData<*mut ()>,
}

/// Writes down that the calling thread uses what lies at `place` (not 0). Loads that follow are made after
/// that is visible to a thread that frees it.
#[inline]
pub fn publish(place: usize) -> Hazard {
    state::current(|state| {
        let word = take(state, FOR_USES);
        let Some((at, _)) = word else { return publish_further(state, place) };
        at.store(place, Ordering::Relaxed);
        // SYNC: with the fence in `settle`.
        fences::light();
        Hazard { place, word, _here: PhantomData }
    })
}

#[cold]
#[inline(never)]
fn publish_further(state: &State, place: usize) -> Hazard {
    // SYNC: a thread that frees takes the list's lock after it has made the thing unfindable. Either it
    // finds the place in the list, or the caller, which looks after the lock is given back, finds nothing.
    note_further(state, place);
    Hazard { place, word: None, _here: PhantomData }
}

fn note_further(state: &State, place: usize) {
    EVER_FURTHER.store(true, core::sync::atomic::Ordering::SeqCst);
    let me = record::local(state);
    FURTHER.with(|list| {
        list.retain(|&(_, owner)| record::local_lives(owner));
        list.push((place, me));
    });
}

fn strike_further(state: &State, place: usize) {
    let me = record::local(state);
    FURTHER.with(|list| {
        if let Some(at) = list.iter().rposition(|&entry| entry == (place, me)) {
            list.swap_remove(at);
        }
    });
}

impl Drop for Hazard {
    #[inline]
    fn drop(&mut self) {
        state::current(|state| match self.word {
            Some((word, bit)) => {
                // SYNC: pairs with the load in `names`.
                word.store(NOTHING, Ordering::Release);
                compiler_fence(Ordering::SeqCst);
                state.noted.set(state.noted.get() & !bit);
            }
            None => strike_further(state, self.place),
        });
    }
}

/// What a thread waits for without a lock, until this is dropped.
#[derive(Debug)]
pub struct Waits {
    /// Its words, a bit for each.
    own: Cell<u32>,
    further: RefCell<Vec<usize>>,
    /// It belongs to the thread that made it.
    _here: PhantomData<*mut ()>,
}

impl Waits {
    /// A wait begins that uses nothing yet. `outermost`: the calling thread runs no signal handler, so all
    /// its other waits have been left by `longjmp`, and are forgotten.
    #[inline]
    pub fn begin(outermost: bool) -> Waits {
        if outermost {
            state::current(forget);
        }
        Waits { own: Cell::new(0), further: RefCell::default(), _here: PhantomData }
    }

    /// The wait uses what lies at `place` (not 0). The caller holds a lock that keeps it from being freed.
    #[inline]
    pub fn keep(&self, place: usize) {
        if self.names(place) {
            return;
        }
        state::current(|state| match take(state, FOR_WAITS) {
            Some((word, bit)) => {
                self.own.set(self.own.get() | bit);
                // SYNC: the thread that frees has had the caller's lock after the caller.
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
                record::words(state).is_some_and(|words| {
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
        let me = record::local(state);
        FURTHER.with(|list| list.retain(|&(_, owner)| owner != me));
    }
}

/// The calling thread's words with those bits name nothing any more.
#[inline]
fn end(state: &State, mut bits: u32) {
    let Some(words) = record::words(state) else { return };
    let all = bits;
    while bits != 0 {
        // SYNC: pairs with the load in `names`.
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
            // SYNC: with `settle`: what the thread looks at after this is at least as new as what a
            // thread had done that still found it here.
            fences::light();
        });
    }
}

/// What was written down before this is found by [`is_used`] after it; a thread that writes down later
/// finds what the caller has done before. False if that cannot be had: then nothing may be freed.
#[must_use]
pub fn settle() -> bool {
    fences::heavy(Reach::Process)
}

/// Whether a thread of this process uses what lies at `place`. The caller has seen to it that no thread
/// finds it any more, and then called [`settle`].
pub fn is_used(place: usize) -> bool {
    let mut used = false;
    record::each_words(|_, words| used |= words.names(place));
    used || is_used_further(place)
}

fn is_used_further(place: usize) -> bool {
    FURTHER
        .with(|list| list.iter().any(|&(used, owner)| used == place && record::local_lives(owner)))
}

/// A thread that uses something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User(u32);

impl User {
    /// The calling thread.
    pub fn me() -> User {
        User(state::current(record::local))
    }

    /// The thread as a number, for a word that another thread reads.
    pub fn word(self) -> u32 {
        self.0
    }

    /// From that number.
    pub fn from_word(word: u32) -> User {
        User(word)
    }

    /// Whether the thread lives.
    pub fn lives(self) -> bool {
        record::local_lives(self.0)
    }
}

/// The threads that use what lies at `place`, each once. The caller has called [`settle`].
pub fn users(place: usize) -> Vec<User> {
    let mut users = Vec::new();
    record::each_words(|owner, words| {
        if words.names(place) {
            users.push(User(owner));
        }
    });
    FURTHER.with(|list| {
        for &(used, owner) in list.iter() {
            if used == place && record::local_lives(owner) && !users.contains(&User(owner)) {
                users.push(User(owner));
            }
        }
    });
    users
}

/// Around fork: the list is whole in the child.
pub fn hold() {
    FURTHER.hold();
}

/// After fork, in both.
pub fn release() {
    FURTHER.release();
}
