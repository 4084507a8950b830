//! Data that host and NIC share, and the sleep of threads.

use crate::config::Mode;
use crate::nic::{Nic, Own};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use sovia_emp::{Array, Host, Node};
use sovia_port::watch::{Bell, Kick};
use sovia_sys::{call, futex};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) array: Array,
    /// Lock for threads of the program that post or test at the same time. The NIC does not use this lock.
    host: Mutex<Host>,
    nic: Mutex<Nic>,
    /// Number of threads of the program that wait for the NIC's lock, which a polling NIC thread holds most of the
    /// time.
    wanted: AtomicU32,
    pub(crate) mode: Mode,
    /// Nanoseconds that a thread polls before it sleeps.
    pub(crate) spin_ns: u64,
    /// Wakes the NIC's thread while it watches the port.
    kick: Kick,
    /// Wakes the NIC's thread while it naps.
    bell: Bell,
    /// With [`Mode::Thread`]: set while the NIC's thread sleeps or is about to sleep.
    sleeps: AtomicBool,
    /// Set if a peer's message has found no receive.
    misses_receives: AtomicBool,
    /// Number of sends and receives that have ended. Waiting threads sleep on this word.
    ended: AtomicU32,
    /// Number of threads that sleep on `ended`.
    waiters: AtomicU32,
    pub(crate) is_closing: AtomicBool,
}

impl Shared {
    /// # Errors
    /// Returns the kernel's error if no descriptor is left.
    pub(crate) fn new(nic: Nic, mode: Mode, spin_ns: u64) -> sovia_sys::Result<Shared> {
        Ok(Shared {
            array: Array::new(),
            host: Mutex::new(Host::new()),
            nic: Mutex::new(nic),
            wanted: AtomicU32::new(0),
            mode,
            spin_ns,
            kick: Kick::new()?,
            bell: Bell::default(),
            sleeps: AtomicBool::new(false),
            misses_receives: AtomicBool::new(false),
            ended: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
        })
    }

    pub(crate) fn host(&self) -> MutexGuard<'_, Host> {
        // Ignores poisoning. A failing test reports its own failure, and other threads may clean up.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nic(&self) -> MutexGuard<'_, Nic> {
        self.nic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the NIC, unless another thread holds the lock.
    pub(crate) fn nic_if_free(&self) -> Option<MutexGuard<'_, Nic>> {
        match self.nic.try_lock() {
            Ok(nic) => Some(nic),
            Err(TryLockError::Poisoned(nic)) => Some(nic.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks the NIC for a call of the program, while a NIC thread holds the lock most of the time.
    pub(crate) fn nic_between(&self) -> MutexGuard<'_, Nic> {
        // SYNC: only a hint for the NIC's thread. The lock orders the data.
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let nic = self.nic();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        nic
    }

    /// Lets threads of the program take the lock. The NIC's thread calls this function.
    pub(crate) fn let_others(&self) {
        // SYNC: only a hint. The lock orders the data.
        while self.wanted.load(Ordering::Relaxed) > 0 {
            call::sched_yield();
        }
    }

    /// Drives the NIC once, and returns the number of frames.
    pub(crate) fn drive(&self) -> usize {
        let mut nic = self.nic();
        nic.driven += 1;
        let came = self.drive_held(&mut nic);
        let timer = nic.engine.next_timer().map(sovia_link::Time::nanos);
        // The NIC's thread must wake earlier than planned.
        if let Own::Watches(until) = nic.own
            && timer.is_some_and(|timer| until.is_none_or(|until| timer < until))
        {
            nic.own = Own::Awake;
            self.kick.give();
        }
        came
    }

    /// Drives the NIC under the caller's lock, and wakes threads that wait for ended transfers.
    pub(crate) fn drive_held(&self, nic: &mut Nic) -> usize {
        let before = nic.engine.counters().ended;
        let came = self.drive_and_say(nic);
        self.tell(nic.engine.counters().ended.wrapping_sub(before) as u32);
        came
    }

    /// Ends all transfers with a peer.
    pub(crate) fn give_up(&self, node: Node) {
        let mut nic = self.nic_between();
        let before = nic.engine.counters().ended;
        nic.give_up(&self.array, node);
        self.tell(nic.engine.counters().ended.wrapping_sub(before) as u32);
    }

    /// Drives the NIC, and publishes if a peer's message has found no receive.
    fn drive_and_say(&self, nic: &mut Nic) -> usize {
        let came = nic.drive(&self.array);
        let misses = nic.engine.misses_receives();
        // SYNC: only the holder of the lock writes this word.
        if misses != self.misses_receives.load(Ordering::Relaxed) {
            self.misses_receives.store(misses, Ordering::Relaxed);
            if misses {
                fence(Ordering::SeqCst);
                // Either this call takes a receive that was posted meanwhile, or the posting thread sees
                // `misses_receives`.
                return came + nic.take_posts(&self.array);
            }
        }
        came
    }

    /// Counts `count` ended sends and receives, and wakes waiting threads.
    pub(crate) fn tell(&self, count: u32) {
        if count == 0 {
            return;
        }
        // SYNC: sequentially consistent with `sleep`. Either this thread sees the waiter, or the waiter sees the new
        // count.
        self.ended.fetch_add(count, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.ended, u32::MAX >> 1);
        }
    }

    /// Returns the number of ended sends and receives, for a later [`Shared::sleep`].
    pub(crate) fn ended(&self) -> u32 {
        // SYNC: pairs with the increment in `tell`. The words of the descriptors order the outcomes.
        self.ended.load(Ordering::Acquire)
    }

    /// Sleeps until the number of ended transfers differs from `since`.
    pub(crate) fn sleep(&self, since: u32, timeout_ns: Option<u64>) {
        // SYNC: sequentially consistent with `tell`. Either this thread sees the new count, or the other thread sees
        // this waiter.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        if self.mode == Mode::Calls {
            // The NIC's thread must watch the port while this thread sleeps.
            self.bell.ring();
        }
        if self.ended.load(Ordering::SeqCst) == since {
            // The caller looks itself, whatever ends the sleep.
            let _ = futex::wait(&self.ended, since, timeout_ns);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns true if a thread of the program sleeps.
    pub(crate) fn has_sleepers(&self) -> bool {
        // SYNC: sequentially consistent with `sleep`, like the load in `tell`.
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// Notifies the NIC of a new receive. The NIC takes the receive with the next frame, or at once if a peer waits for
    /// a receive.
    pub(crate) fn posted_receive(&self) {
        // SYNC: pairs with the fence in `drive_and_say`. Either the NIC takes the post after it sets `misses_receives`,
        // or this thread sees `misses_receives`.
        fence(Ordering::SeqCst);
        // SYNC: the fence above comes before this load.
        if self.misses_receives.load(Ordering::Relaxed) {
            self.posted();
        }
    }

    /// Notifies the NIC of a post that needs work at once.
    pub(crate) fn posted(&self) {
        match self.mode {
            Mode::Calls => {
                self.drive();
            }
            Mode::Thread { .. } => {
                // SYNC: pairs with the fence in `watch`. Either the NIC's thread sees the post before it sleeps, or
                // this thread sees `sleeps`.
                fence(Ordering::SeqCst);
                // SYNC: the fence above comes before this load.
                if self.sleeps.load(Ordering::Relaxed) {
                    self.kick.give();
                }
            }
        }
    }

    /// Sleeps on the port, unless work is waiting. The NIC's thread calls this function.
    pub(crate) fn watch<'s>(&'s self, mut nic: MutexGuard<'s, Nic>) {
        let terms = nic.terms();
        // SYNC: pairs with the fence in `posted`. Either this thread sees the post, or the posting thread sees
        // `sleeps`.
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_called = self.is_closing.load(Ordering::Acquire) || nic.has_posts(&self.array);
        if !is_called {
            nic.own = Own::Watches(terms.until);
            drop(nic);
            let found = self.kick.sleep(&terms);
            nic = self.nic();
            nic.own = Own::Awake;
            nic.woken(found.news);
        }
        // SYNC: none needed. A late kick only causes a look without a result.
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// Returns the current value of the futex word, for a later [`Shared::nap`].
    pub(crate) fn heard(&self) -> u32 {
        self.bell.heard()
    }

    /// Sleeps while calls do the NIC's work. The NIC's thread calls this function.
    pub(crate) fn nap(&self, heard: u32, nanos: u64) {
        self.bell.sleep(heard, Some(nanos));
    }

    /// Makes the NIC's thread end.
    pub(crate) fn close(&self) {
        // SYNC: pairs with the Acquire loads of the NIC's thread.
        self.is_closing.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.kick.give();
        self.bell.ring();
    }
}
