//! A lock that is biased to the thread that takes it most.
//!
//! A lock that one thread takes most of the time needs no atomic exchanges. After enough acquisitions in a row
//! the lock becomes *biased* to that thread. From then on the thread takes the lock by writing the lock's address
//! into a word of its own robust-list entry. The thread releases the lock by clearing this word. Another thread
//! that wants the lock first revokes the bias. For this it marks the bias as ending, and lets the kernel execute
//! a fence in the biased thread ([`crate::fences`]). After the fence, either the revoking thread finds the biased
//! thread inside, or the biased thread will find that the bias is ending.
//!
//! The word belongs to the thread and not to the lock. A thread may be suspended between its check of the bias
//! and its store of the word. If another thread has got the bias meanwhile, the store says only that the
//! suspended thread is inside.
//!
//! A thread changes `biased` only while it owns the inner lock ([`RobustLock`]). A thread may use the guarded
//! data while it has the bias. Any other thread may use the data only while it owns the inner lock and no thread
//! has the bias. Both the inner lock and the bias survive their owners. A biased thread that has ended counts as
//! ended inside the lock. The only exception: its entry proves the opposite, and no other thread has taken the
//! entry.
//!
//! No lock becomes biased where the kernel executes no fences in other threads.

use crate::lock::{STEP_NS, deadline, never_taken};
use crate::owners::Owners;
use crate::shim::{AtomicU32, AtomicUsize, Ordering, SPINS, now_ns, spin_loop};
use crate::state::{self, State};
use crate::{Acquired, Local, RobustLock, critical_section, fences, rank};
use sovia_sys::stall::{At, point};

/// Number of acquisitions in a row after which the lock becomes biased. Over so many acquisitions a bias saves
/// about what its revocation costs (a few microseconds).
const ENOUGH: u32 = if cfg!(loom) { 1 } else { 1 << 10 };
/// Limit of the doublings of [`ENOUGH`]: each revocation doubles the number of acquisitions before the next bias.
const DOUBLINGS: u32 = if cfg!(loom) { 0 } else { 5 };
/// Set in `biased` while a thread revokes the bias. No owner word has this bit.
const ENDING: u32 = 1 << 31;
/// Number of sleeps of [`STEP_NS`] after which a thread does without a fence that the kernel refuses. The stores
/// of every processor reach memory long before that.
const WITHOUT_FENCE: u32 = 8;

/// A [`RobustLock`] that can be biased to the thread that uses it most. All-zero memory is an unlocked lock.
#[derive(Debug)]
#[repr(C)]
pub struct BiasedLock<K = Local, const RANK: u8 = { rank::NONE }> {
    /// Owner word of the biased thread; 0 if there is none. Only the owner of `lock` writes this field and the
    /// next three.
    biased: AtomicU32,
    /// Owner word of the last thread that owned `lock`.
    last: AtomicU32,
    /// Number of times in a row that this thread has taken the lock.
    times: AtomicU32,
    /// Number of times that a thread has revoked the bias.
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

/// State of the bias, as seen by the owner of the inner lock.
#[derive(Clone, Copy)]
enum Bias {
    /// No thread has the bias, or no longer has it.
    None,
    /// The biased thread has ended, perhaps inside the lock.
    Dead,
    /// The biased thread, with this owner word, is inside the lock.
    Inside(u32),
    /// The biased thread may be inside: the kernel has refused the fence.
    Unknown,
}

impl<K: Owners, const RANK: u8> BiasedLock<K, RANK> {
    /// Returns the lock's address, which identifies the lock.
    fn place(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Takes the lock.
    #[inline(always)]
    pub fn lock(&self) -> Acquired {
        let state = state::here();
        critical_section::enter_on(state);
        if self.enter(state, K::me(state)) {
            rank::taken_on(state, RANK);
            return Acquired::Clean;
        }
        let Some(acquired) = self.lock_as_others(state, None) else { never_taken() };
        acquired
    }

    /// Like [`BiasedLock::lock`], but waits at most `ns` nanoseconds. Returns `None` if another thread holds the
    /// lock for longer. The order of locks does not apply if `ns` is 0.
    pub fn lock_within(&self, ns: u64) -> Option<Acquired> {
        state::current(|state| {
            critical_section::enter_on(state);
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
            critical_section::enter_on(state);
            let me = K::me(state);
            let taken = self.enter(state, me) || self.try_as_others(state, me);
            if taken {
                rank::added_on(state, RANK);
            } else {
                critical_section::leave_on(state);
            }
            taken
        })
    }

    /// Takes the lock if it is biased to the calling thread, and this thread is in no critical section. So the
    /// call fails under another lock, and in a signal handler that has interrupted the thread under a lock.
    /// Release the lock with [`BiasedLock::unlock_biased`].
    #[inline(always)]
    pub fn lock_biased(&self) -> bool {
        let state = state::here();
        // These loads come before any store, so a failed call costs a thread without the bias nothing else.
        if self.biased.load(Ordering::Relaxed) != K::known(state) || state.depth.get() != 0 {
            return false;
        }
        critical_section::enter_on(state);
        // Read the word again: a signal handler that ran before the section may have forked, and a child has
        // another word. The word is 0 in a thread that has none yet.
        let me = K::known(state);
        let taken = me != 0 && self.enter_unchecked(state, me);
        if taken {
            rank::taken_on(state, RANK);
        } else {
            critical_section::leave_on(state);
        }
        taken
    }

    /// Releases the lock after [`BiasedLock::lock_biased`].
    #[inline(always)]
    pub fn unlock_biased(&self) {
        let state = state::here();
        debug_assert!(self.is_inside(state), "not the favoured thread, or not inside");
        if let Some(inside) = K::inside(state) {
            self.give_back_biased(state, inside);
        }
    }

    /// Takes the lock by bias. Fails if the lock is not biased to the calling thread, or if this thread already
    /// holds this or another lock by bias.
    #[inline(always)]
    fn enter(&self, state: &State, me: u32) -> bool {
        self.biased.load(Ordering::Relaxed) == me && self.enter_unchecked(state, me)
    }

    /// Like [`BiasedLock::enter`]. Takes more time if the lock is not biased to the calling thread.
    #[inline(always)]
    fn enter_unchecked(&self, state: &State, me: u32) -> bool {
        let Some(inside) = K::inside(state) else { return false };
        if inside.load(Ordering::Relaxed) != 0 {
            return false;
        }
        point(At::Taking);
        // SYNC: Release, because a thread that revokes another lock's bias may read this value instead of the 0
        // that `leave` stored. That thread must see the stores before the 0.
        inside.store(self.place(), Ordering::Release);
        // SYNC: pairs with `heavy` in `take_away`: either the revoking thread finds this word, or this thread
        // finds the bias ending.
        fences::light();
        if self.biased.load(Ordering::Acquire) == me {
            point(At::Locked);
            return true;
        }
        self.leave(inside);
        false
    }

    /// Releases the lock that the calling thread holds by bias.
    #[inline(always)]
    fn leave(&self, inside: &AtomicUsize) {
        // SYNC: pairs with the load of this word in `take_away` (`K::is_inside`).
        inside.store(0, Ordering::Release);
        // Wake all: the revoking thread sleeps among the threads that wait for the inner lock.
        self.lock.given_back(u32::MAX >> 1);
    }

    #[inline(always)]
    fn give_back_biased(&self, state: &State, inside: &AtomicUsize) {
        point(At::Unlocking);
        rank::given_back(RANK);
        self.leave(inside);
        critical_section::leave_on(state);
    }

    /// Returns true if the calling thread holds the lock by bias.
    #[inline(always)]
    fn is_inside(&self, state: &State) -> bool {
        K::inside(state).is_some_and(|inside| inside.load(Ordering::Relaxed) == self.place())
    }

    /// Releases the lock.
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

    /// Returns true if the calling thread holds the lock. A caller in a signal handler may have interrupted the
    /// critical section. A caller may also have left the section by `longjmp`.
    #[inline(always)]
    pub fn is_mine(&self) -> bool {
        state::current(|state| self.is_inside(state)) || self.lock.is_mine()
    }

    /// Resets the counts of acquisitions and revocations, for a lock that begins to guard something new.
    pub fn begin_anew(&self) {
        self.times.store(0, Ordering::Relaxed);
        self.taken_away.store(0, Ordering::Relaxed);
    }

    /// Takes the lock without the bias, by time `until` at the latest. The caller is in a critical section. On
    /// return the thread is in that section only if it has taken the lock.
    #[inline(never)]
    fn lock_as_others(&self, state: &State, until: Option<u64>) -> Option<Acquired> {
        // Otherwise the thread would wait for itself.
        if self.is_inside(state) {
            critical_section::leave_on(state);
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
                // Keep the inner lock: another thread must not take it as a clean one.
                self.lock.sleep_while(STEP_NS, is_held);
                continue;
            }
            let left = match until.map(|until| until.saturating_sub(now_ns())) {
                Some(0) => None,
                left => Some(left.unwrap_or(STEP_NS).min(STEP_NS)),
            };
            self.lock.give_back();
            // Signal handlers may run during the sleep, unless the thread holds another lock.
            critical_section::leave_on(state);
            self.lock.sleep_while(left?, is_held);
            critical_section::enter_on(state);
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

    /// Revokes another thread's bias, or counts this acquisition if no thread has the bias. After enough
    /// acquisitions the calling thread gets the bias. The caller owns the inner lock. `patient`: the caller has
    /// waited so long that it needs no fence by the kernel.
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
        let has_robust_entry = state::current(K::inside).is_some();
        if times >> self.taken_away.load(Ordering::Relaxed).min(DOUBLINGS) >= ENOUGH
            && has_robust_entry
            && (fences::are_from_kernel() || cfg!(loom))
        {
            self.times.store(0, Ordering::Relaxed);
            // For this acquisition the thread still owns the inner lock, for which every other thread waits
            // first.
            self.biased.store(me, Ordering::Release);
        }
    }

    /// Revokes the bias of the thread `biased`, unless that thread is inside. The caller owns the inner lock.
    #[cold]
    #[inline(never)]
    fn take_away(&self, me: u32, biased: u32, patient: bool) -> Bias {
        let thread = biased & !ENDING;
        let found = if thread == me {
            // The caller is not inside, and no other thread has this owner word.
            Bias::None
        } else {
            if biased & ENDING == 0 {
                let before = self.taken_away.load(Ordering::Relaxed);
                self.taken_away.store(before.saturating_add(1), Ordering::Relaxed);
                self.biased.store(thread | ENDING, Ordering::SeqCst);
            }
            point(At::LookedUp);
            // SYNC: pairs with `light` in `enter`. Executed at each attempt, because the thread that set `ENDING`
            // may have died before its fence.
            let is_fenced = fences::heavy(K::REACH);
            let is_inside = K::is_inside(thread, self.place());
            // Check this after `is_inside`: an entry that has got another owner says nothing about the thread.
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
