//! A lock that is biased towards the thread that uses it.
//!
//! What mostly one thread uses need not be locked by atomic exchanges. A thread that has taken the lock often
//! enough in a row is *favoured* from then on: it takes the lock by writing the lock's place into a word of
//! its own record, and gives it back by writing nothing there. Another thread that wants the lock takes the
//! favour away first: it marks the favour as ending and has the kernel put a fence into the favoured thread
//! ([`crate::fences`]). After that it either finds the favoured thread inside, or that thread will find that
//! it is favoured no more.
//!
//! The word belongs to the thread and not to the lock: a thread that has stood still between its look at the
//! favour and its word says of itself alone that it is inside, even when the favour is another thread's by then.
//!
//! A thread changes `biased` only while it owns the lock below ([`RobustLock`]), and holds what the lock
//! guards only if it is the favoured one, or owns the lock below and no thread is favoured. That lock
//! survives its owners, and so does the favour: a favoured thread that has ended counts as one that was inside, unless
//! its record, which no other thread has got yet, says that it was not.
//!
//! No thread is favoured where the kernel puts no fences.

use crate::lock::{STEP_NS, deadline, never_taken};
use crate::owners::Owners;
use crate::shim::{AtomicU32, AtomicUsize, Ordering, SPINS, now_ns, spin_loop};
use crate::state::{self, State};
use crate::{Acquired, Local, RobustLock, fences, rank, section};
use sovia_sys::stall::{At, point};

/// How often in a row a thread takes the lock before it is favoured: as often as saves what taking the favour
/// away costs (a few microseconds).
const ENOUGH: u32 = if cfg!(loom) { 1 } else { 1 << 10 };
/// It is twice as often each time the favour has been taken away, up to this power of two more.
const DOUBLINGS: u32 = if cfg!(loom) { 0 } else { 5 };
/// In the word that names the favoured thread: the favour is being taken away. No record's word has this bit.
const ENDING: u32 = 1 << 31;
/// So often a thread sleeps [`STEP_NS`] where the kernel refuses it the fence: what a processor has stored is in
/// memory long before that.
const WITHOUT_FENCE: u32 = 8;

/// A [`RobustLock`] that favours the thread which uses it most. All-zero memory is an unlocked one.
#[derive(Debug)]
#[repr(C)]
pub struct BiasedLock<K = Local, const RANK: u8 = { rank::NONE }> {
    /// The favoured thread's word; 0: none is. The next three are written by the owner of `lock` alone.
    biased: AtomicU32,
    /// The last owner of `lock`.
    last: AtomicU32,
    /// How often in a row it has taken the lock.
    times: AtomicU32,
    /// How often the favour has been taken away.
    taken_away: AtomicU32,
    lock: RobustLock<K, RANK>,
}

impl<K: Owners, const RANK: u8> Default for BiasedLock<K, RANK> {
    fn default() -> Self {
        BiasedLock {
            biased: AtomicU32::new(0),
            last: AtomicU32::new(0),
            times: AtomicU32::new(0),
            taken_away: AtomicU32::new(0),
            lock: RobustLock::new(),
        }
    }
}

/// What a thread that owns the lock below finds.
#[derive(Clone, Copy)]
enum Bias {
    /// No thread is favoured (any more).
    None,
    /// The favoured thread has ended, perhaps inside.
    Dead,
    /// The thread of that word is inside.
    Inside(u32),
    /// It may be: the kernel has refused the fence.
    Unknown,
}

impl<K: Owners, const RANK: u8> BiasedLock<K, RANK> {
    /// By what the lock is known.
    fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> Acquired {
        let state = state::here();
        section::enter_on(state);
        if self.enter(state, K::me(state)) {
            rank::taken_on(state, RANK);
            return Acquired::Clean;
        }
        let Some(acquired) = self.lock_as_others(state, None) else { never_taken() };
        acquired
    }

    /// Like [`BiasedLock::lock`], but waits for so many nanoseconds at most; `None` if others hold it for longer. One that waits
    /// for none stands outside the order of locks.
    pub fn lock_within(&self, ns: u64) -> Option<Acquired> {
        state::current(|state| {
            section::enter_on(state);
            if self.enter(state, K::me(state)) {
                rank::taken_within_on(state, RANK, ns);
                return Some(Acquired::Clean);
            }
            self.lock_as_others(state, Some(deadline(ns)))
        })
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub fn try_lock(&self) -> bool {
        state::current(|state| {
            section::enter_on(state);
            let me = K::me(state);
            let taken = self.enter(state, me) || self.try_as_others(state, me);
            if taken {
                rank::added_on(state, RANK);
            } else {
                section::leave_on(state);
            }
            taken
        })
    }

    /// Takes the lock if it favours the calling thread and that is in no section, so neither under another lock nor in
    /// a handler that has interrupted it under one. [`BiasedLock::unlock_biased`] gives it back.
    #[inline(always)]
    pub fn lock_biased(&self) -> bool {
        let biased = self.biased.load(Ordering::Relaxed);
        let state = state::here();
        // One look at the thread's words before anything is written: a thread that is not favoured loses nothing else by
        // asking.
        if biased == 0 || K::known(state) != biased || state.depth.get() != 0 {
            return false;
        }
        section::enter_on(state);
        // Once more: a handler that ran before the section may have forked, and the child has another word.
        let me = K::known(state);
        let taken = me != 0 && self.enter(state, me);
        if taken {
            rank::taken_on(state, RANK);
        } else {
            section::leave_on(state);
        }
        taken
    }

    /// Gives the lock back that [`BiasedLock::lock_biased`] has taken.
    #[inline(always)]
    pub fn unlock_biased(&self) {
        let state = state::here();
        debug_assert!(self.is_inside(state), "not the favoured thread, or not inside");
        if let Some(inside) = K::inside(state) {
            self.give_back_biased(state, inside);
        }
    }

    /// Takes the lock if it favours the calling thread, which is not inside it, nor any other in this way.
    #[inline(always)]
    fn enter(&self, state: &State, me: u32) -> bool {
        if self.biased.load(Ordering::Relaxed) != me {
            return false;
        }
        let Some(inside) = K::inside(state) else { return false };
        if inside.load(Ordering::Relaxed) != 0 {
            return false;
        }
        point(At::Taking);
        // SYNC: Release, for a thread that reads this instead of the 0 before.
        inside.store(self.place(), Ordering::Release);
        // SYNC: with `heavy` in `take_away`: that thread finds the word, or this one finds the favour ending.
        fences::light();
        if self.biased.load(Ordering::Acquire) == me {
            point(At::Locked);
            return true;
        }
        self.leave(inside);
        false
    }

    /// The calling thread is no more inside as the favoured one.
    #[inline(always)]
    fn leave(&self, inside: &AtomicUsize) {
        // SYNC: pairs with the look at the word in `take_away`.
        inside.store(0, Ordering::Release);
        // All: the thread that takes the favour away sleeps among those that wait for the lock below.
        self.lock.given_back(u32::MAX >> 1);
    }

    #[inline(always)]
    fn give_back_biased(&self, state: &State, inside: &AtomicUsize) {
        point(At::Unlocking);
        rank::given_back(RANK);
        self.leave(inside);
        section::leave_on(state);
    }

    /// Whether the calling thread is inside as the favoured one.
    #[inline(always)]
    fn is_inside(&self, state: &State) -> bool {
        K::inside(state).is_some_and(|inside| inside.load(Ordering::Relaxed) == self.place())
    }

    /// Gives the lock back.
    #[inline(always)]
    pub fn unlock(&self) {
        let state = state::here();
        if let Some(inside) = K::inside(state)
            && inside.load(Ordering::Relaxed) == self.place()
        {
            self.give_back_biased(state, inside);
        } else {
            self.lock.unlock();
        }
    }

    /// Whether the calling thread holds the lock: it is in a signal handler that has interrupted the critical
    /// section, or has left that by `longjmp`.
    #[inline(always)]
    pub fn is_mine(&self) -> bool {
        state::current(|state| self.is_inside(state)) || self.lock.is_mine()
    }

    /// No thread has used it often: what it guards begins anew.
    pub fn begin_anew(&self) {
        self.times.store(0, Ordering::Relaxed);
        self.taken_away.store(0, Ordering::Relaxed);
    }

    /// Begins in a section and ends in one if the lock has been taken, by `until` at the latest.
    #[inline(never)]
    fn lock_as_others(&self, state: &State, until: Option<u64>) -> Option<Acquired> {
        // Else the thread would wait for one that waits for it.
        if self.is_inside(state) {
            section::leave_on(state);
            return Some(Acquired::Reentered);
        }
        let me = K::me(state);
        let mut sleeps = 0;
        let mut acquired = self.lock.acquire(state, me, until)?;
        while acquired != Acquired::Reentered {
            let bias = self.bias(me, acquired, sleeps >= WITHOUT_FENCE);
            let is_held = || match bias {
                Bias::Inside(thread) => K::is_inside(thread, self.place()),
                _ => true,
            };
            match bias {
                Bias::None => break,
                Bias::Dead => {
                    self.biased.store(0, Ordering::Relaxed);
                    acquired = Acquired::FromTheDead;
                    break;
                }
                Bias::Inside(_) if (0..SPINS).any(|_| is_gone(is_held)) => continue,
                Bias::Inside(_) | Bias::Unknown => sleeps += 1,
            }
            if acquired == Acquired::FromTheDead {
                // The lock must not pass through another thread's hands as a clean one.
                self.lock.sleep_while(STEP_NS, is_held);
                continue;
            }
            let left = match until.map(|until| until.saturating_sub(now_ns())) {
                Some(0) => None,
                left => Some(left.unwrap_or(STEP_NS).min(STEP_NS)),
            };
            self.lock.give_back();
            // Signal handlers may run meanwhile, unless the thread holds another lock.
            section::leave_on(state);
            self.lock.sleep_while(left?, is_held);
            section::enter_on(state);
            acquired = self.lock.acquire(state, me, until)?;
        }
        if sleeps != 0 {
            self.lock.sleepers_go_on();
        }
        if acquired.is_held() {
            rank::taken_within_on(state, RANK, until.unwrap_or(u64::MAX));
        }
        Some(acquired)
    }

    #[cold]
    fn try_as_others(&self, state: &State, me: u32) -> bool {
        if self.is_inside(state) || !self.lock.takes(me) {
            return false;
        }
        let is_free = matches!(self.bias(me, Acquired::Clean, false), Bias::None);
        if !is_free {
            self.lock.give_back();
        }
        is_free
    }

    /// Sees to it that no thread is favoured, unless that is to be the calling one from its next time on. It owns
    /// the lock below. `patient`: it has waited so long that the kernel's fence may be done without.
    #[inline(always)]
    fn bias(&self, me: u32, acquired: Acquired, patient: bool) -> Bias {
        match self.biased.load(Ordering::Relaxed) {
            0 => {
                self.count(me, acquired);
                Bias::None
            }
            biased => self.take_away(me, biased, patient),
        }
    }

    #[inline(always)]
    fn count(&self, me: u32, acquired: Acquired) {
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.times.store(0, Ordering::Relaxed);
        }
        let times = self.times.load(Ordering::Relaxed).saturating_add(1);
        self.times.store(times, Ordering::Relaxed);
        if times >= ENOUGH && acquired == Acquired::Clean {
            self.begin_bias(me, times);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_bias(&self, me: u32, times: u32) {
        let has_record = state::current(K::inside).is_some();
        if times >> self.taken_away.load(Ordering::Relaxed).min(DOUBLINGS) >= ENOUGH
            && has_record
            && (fences::are_from_kernel() || cfg!(loom))
        {
            self.times.store(0, Ordering::Relaxed);
            // This time the thread owns the lock below still, for which any other waits first.
            self.biased.store(me, Ordering::Release);
        }
    }

    /// Takes the favour away from a thread, unless that is inside. The caller owns the lock below.
    #[cold]
    #[inline(never)]
    fn take_away(&self, me: u32, biased: u32, patient: bool) -> Bias {
        let thread = biased & !ENDING;
        let found = if thread == me {
            // The caller is not inside, and no other thread has this word.
            Bias::None
        } else {
            if biased & ENDING == 0 {
                let before = self.taken_away.load(Ordering::Relaxed);
                self.taken_away.store(before.saturating_add(1), Ordering::Relaxed);
                self.biased.store(thread | ENDING, Ordering::SeqCst);
            }
            point(At::LookedUp);
            // SYNC: with `enter`. Each time: the thread that set `ENDING` may have died before its fence.
            let is_fenced = fences::heavy(K::REACH);
            let is_inside = K::is_inside(thread, self.place());
            // After the look: a record that has got another owner says nothing of the thread.
            match K::lives(thread) {
                false if K::ended_outside(thread, self.place()) => Bias::None,
                false => return Bias::Dead,
                true if is_inside => return Bias::Inside(thread),
                true if !is_fenced && !patient => return Bias::Unknown,
                true => Bias::None,
            }
        };
        self.biased.store(0, Ordering::Relaxed);
        found
    }
}

fn is_gone(is_held: impl Fn() -> bool) -> bool {
    spin_loop();
    !is_held()
}

#[cfg(all(test, not(loom)))]
#[path = "biased_tests.rs"]
mod tests;
