//! What host and NIC share, and which thread sleeps where.

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
    /// For threads of the program's that post or test at the same time. The NIC has no part in it.
    host: Mutex<Host>,
    nic: Mutex<Nic>,
    /// Threads of the program's that want the NIC's lock, from a NIC's thread that always has it.
    wanted: AtomicU32,
    pub(crate) mode: Mode,
    /// How long a thread looks before it sleeps (nanoseconds).
    pub(crate) spin_ns: u64,
    /// Wakes the NIC's thread where it watches the port.
    kick: Kick,
    /// Wakes it where it naps.
    bell: Bell,
    /// With [`Mode::Thread`]: the NIC's thread is about to sleep, or sleeps.
    sleeps: AtomicBool,
    /// A message of a peer has found no receive.
    misses_receives: AtomicBool,
    /// Sends and receives that have ended. Threads that wait for one sleep on it.
    ended: AtomicU32,
    /// How many those are.
    waiters: AtomicU32,
    pub(crate) is_closing: AtomicBool,
}

impl Shared {
    /// # Errors
    /// The kernel's, where there are no descriptors.
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
        // A test that fails while it holds the lock has its say; others may clean up.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nic(&self) -> MutexGuard<'_, Nic> {
        self.nic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The NIC, unless another thread has it.
    pub(crate) fn nic_if_free(&self) -> Option<MutexGuard<'_, Nic>> {
        match self.nic.try_lock() {
            Ok(nic) => Some(nic),
            Err(TryLockError::Poisoned(nic)) => Some(nic.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The NIC, for a call of the program's beside a NIC's thread that is hardly ever without the lock.
    pub(crate) fn nic_between(&self) -> MutexGuard<'_, Nic> {
        // SYNC: a hint; the lock orders what matters.
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let nic = self.nic();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        nic
    }

    /// The NIC's thread lets others have the lock that want it.
    pub(crate) fn let_others(&self) {
        // SYNC: as in `nic_between`.
        while self.wanted.load(Ordering::Relaxed) > 0 {
            call::sched_yield();
        }
    }

    /// Drives the NIC once; how many frames came.
    pub(crate) fn drive(&self) -> usize {
        let mut nic = self.nic();
        nic.driven += 1;
        let came = self.drive_held(&mut nic);
        let timer = nic.engine.next_timer().map(sovia_link::Time::nanos);
        // It is to sleep less long.
        if let Own::Watches(until) = nic.own
            && timer.is_some_and(|timer| until.is_none_or(|until| timer < until))
        {
            nic.own = Own::Awake;
            self.kick.give();
        }
        came
    }

    /// Drives the NIC, whose lock the caller has, and wakes threads that wait for what has ended.
    pub(crate) fn drive_held(&self, nic: &mut Nic) -> usize {
        let before = nic.engine.counters().ended;
        let came = self.drive_and_say(nic);
        self.tell(nic.engine.counters().ended.wrapping_sub(before) as u32);
        came
    }

    /// Ends all that is under way with a peer.
    pub(crate) fn give_up(&self, node: Node) {
        let mut nic = self.nic_between();
        let before = nic.engine.counters().ended;
        nic.give_up(&self.array, node);
        self.tell(nic.engine.counters().ended.wrapping_sub(before) as u32);
    }

    /// Drives the NIC, and says whether it misses receives.
    fn drive_and_say(&self, nic: &mut Nic) -> usize {
        let came = nic.drive(&self.array);
        let misses = nic.engine.misses_receives();
        // SYNC: the lock's owner alone writes it.
        if misses != self.misses_receives.load(Ordering::Relaxed) {
            self.misses_receives.store(misses, Ordering::Relaxed);
            if misses {
                fence(Ordering::SeqCst);
                // A receive that was posted meanwhile is seen here, or its thread sees the word.
                return came + nic.take_posts(&self.array);
            }
        }
        came
    }

    /// So many sends and receives have ended.
    pub(crate) fn tell(&self, count: u32) {
        if count == 0 {
            return;
        }
        // SYNC: sequentially consistent with `sleep`: either this sees the waiter, or the waiter sees this.
        self.ended.fetch_add(count, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.ended, u32::MAX >> 1);
        }
    }

    /// How many sends and receives have ended, to be slept on.
    pub(crate) fn ended(&self) -> u32 {
        // SYNC: the descriptors' own words order what has ended.
        self.ended.load(Ordering::Acquire)
    }

    /// Sleeps until more have ended than `since`.
    pub(crate) fn sleep(&self, since: u32, timeout_ns: Option<u64>) {
        // SYNC: see `tell`.
        self.waiters.fetch_add(1, Ordering::SeqCst);
        if self.mode == Mode::Calls {
            // Its thread is to look after the port while this one sleeps.
            self.bell.ring();
        }
        if self.ended.load(Ordering::SeqCst) == since {
            // Whatever ends it, the caller looks for itself.
            let _ = futex::wait(&self.ended, since, timeout_ns);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a thread of the program's sleeps.
    pub(crate) fn has_sleepers(&self) -> bool {
        // SYNC: see `tell`.
        self.waiters.load(Ordering::SeqCst) > 0
    }

    /// A receive has been posted. It is taken with the next frame, unless a peer waits for it.
    pub(crate) fn posted_receive(&self) {
        // Either the NIC takes the post after it has said that it misses receives, or this sees that it has said so.
        fence(Ordering::SeqCst);
        // SYNC: behind the fence.
        if self.misses_receives.load(Ordering::Relaxed) {
            self.posted();
        }
    }

    /// Something has been posted that the NIC is to do at once.
    pub(crate) fn posted(&self) {
        match self.mode {
            Mode::Calls => {
                self.drive();
            }
            Mode::Thread { .. } => {
                // Either the NIC's thread sees the post before it sleeps, or this sees that it sleeps.
                fence(Ordering::SeqCst);
                // SYNC: behind the fence.
                if self.sleeps.load(Ordering::Relaxed) {
                    self.kick.give();
                }
            }
        }
    }

    /// The NIC's thread sleeps on the port, unless there is something to do.
    pub(crate) fn watch<'s>(&'s self, mut nic: MutexGuard<'s, Nic>) {
        let terms = nic.terms();
        // SYNC: see `posted`.
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
        // SYNC: a kick that comes too late is one for nothing.
        self.sleeps.store(false, Ordering::Relaxed);
    }

    /// What the bell is now.
    pub(crate) fn heard(&self) -> u32 {
        self.bell.heard()
    }

    /// The NIC's thread sleeps while calls do its work.
    pub(crate) fn nap(&self, heard: u32, nanos: u64) {
        self.bell.sleep(heard, Some(nanos));
    }

    /// The NIC's thread is to end.
    pub(crate) fn close(&self) {
        // SYNC: with the acquire of the NIC's thread.
        self.is_closing.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.kick.give();
        self.bell.ring();
    }
}
