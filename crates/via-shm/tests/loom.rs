//! The lock-free parts under every interleaving, by loom.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p via-shm --test loom`
//!
//! A missed wake-up shows as a deadlock, which loom reports. The negative tests, on copies of a
//! protocol with one thing left out, show that it would be found; there a sleeper only notes that
//! it sleeps, since loom cannot clean up after a deadlock.
#![cfg(loom)]

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use via_shm::ring::{Credit, Entry, SLOTS, Slot};
use via_shm::waiter::{Bell, Waiter};

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// A kernel's futex queue.
struct Futex {
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex { queue: Mutex::new(()), woken: Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        let queue = self.queue.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake(&self) {
        let _queue = self.queue.lock().unwrap();
        self.woken.notify_all();
    }
}

/// A sleep that is noted, not slept; for the negative tests.
struct Note {
    /// Asleep, and rung since.
    state: Mutex<(bool, bool)>,
}

impl Note {
    fn new() -> Note {
        Note { state: Mutex::new((false, false)) }
    }

    fn sleep_if(&self, still: impl FnOnce() -> bool) {
        let mut state = self.state.lock().unwrap();
        state.0 = still();
    }

    fn wake(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 = state.0;
    }

    /// At the end, when the news are out for good.
    fn check(&self) {
        let (asleep, rung) = *self.state.lock().unwrap();
        assert!(!asleep || rung, "a missed wake-up");
    }
}

/// A doorbell that many may ring and one waits for (an eventfd).
struct Doorbell {
    rung: Mutex<bool>,
    news: Condvar,
}

impl Doorbell {
    fn new() -> Doorbell {
        Doorbell { rung: Mutex::new(false), news: Condvar::new() }
    }

    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.news.notify_all();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.news.wait(rung).unwrap();
        }
        *rung = false;
    }
}

mod ring {
    use super::*;

    fn send(slot: &Slot, n: u32, bytes: &[u8]) {
        slot.copy_in(bytes);
        let entry = Entry { immediate: n ^ 7, len: bytes.len() as u32, pool_offset: None };
        slot.publish(n, entry);
    }

    /// Two laps through one slot: the second message may only be written when the reader is done
    /// with the first.
    fn two_laps(receive: fn(&Slot, &Credit, u32) -> Option<[u8; 12]>) {
        let shared = Arc::new((Slot::new(), Credit::new()));
        shared.1.post(1);
        let writer = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (slot, credit) = &*shared;
                send(slot, 0, &[1; 12]);
                // A sender that has no credit does something else; here it gives up.
                let lap = credit.posted() > SLOTS;
                if lap {
                    send(slot, SLOTS, &[2; 12]);
                }
                lap
            })
        };
        let (slot, credit) = &*shared;
        let first = receive(slot, credit, 0);
        assert!(first.is_none_or(|bytes| bytes == [1; 12]), "a torn message");
        let second = first.and_then(|_| receive(slot, credit, SLOTS));
        assert!(second.is_none_or(|bytes| bytes == [2; 12]), "a torn message");
        let lap = writer.join().unwrap();
        if lap && first.is_some() && second.is_none() {
            assert_eq!(receive(slot, credit, SLOTS), Some([2; 12]));
        }
    }

    fn take(slot: &Slot, n: u32) -> Option<[u8; 12]> {
        let entry = slot.read(n)?;
        assert_eq!((entry.immediate, entry.len, entry.pool_offset), (n ^ 7, 12, None));
        let mut bytes = [0; 12];
        assert_eq!(slot.copy_out(0, &mut bytes), 12);
        Some(bytes)
    }

    #[test]
    fn a_slot_is_handed_over_whole_and_back() {
        check(|| {
            two_laps(|slot, credit, n| {
                let bytes = take(slot, n)?;
                credit.post(n + SLOTS + 1);
                Some(bytes)
            });
        });
    }

    #[test]
    #[should_panic(expected = "torn")]
    fn without_order_it_would_be_torn() {
        check(|| {
            two_laps(|slot, credit, n| {
                slot.read(n)?;
                credit.post(n + SLOTS + 1);
                let mut bytes = [0; 12];
                slot.copy_out(0, &mut bytes);
                Some(bytes)
            });
        });
    }

    /// What the reader says last is what the pool's release covers.
    #[test]
    fn what_is_released_has_been_read() {
        check(|| {
            let shared = Arc::new((AtomicU64::new(1), Credit::new()));
            let reader = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let seen = shared.0.load(Ordering::Relaxed);
                    shared.1.release(64);
                    seen
                })
            };
            if shared.1.released() == 64 {
                shared.0.store(2, Ordering::Relaxed);
            }
            assert_eq!(reader.join().unwrap(), 1);
        });
    }
}

mod bell {
    use super::*;

    struct Shared {
        bell: Bell,
        futex: Futex,
        news: AtomicU32,
    }

    /// As a thread waits for a message.
    fn sleep(shared: &Shared) {
        loop {
            let seen = shared.bell.word().load(Ordering::SeqCst);
            shared.bell.going_to_sleep();
            let news = shared.news.load(Ordering::Relaxed) != 0;
            if !news {
                shared.futex.wait(shared.bell.word(), seen);
            }
            shared.bell.woke();
            if news || shared.news.load(Ordering::Relaxed) != 0 {
                return;
            }
        }
    }

    fn tell(shared: &Shared) {
        shared.news.store(1, Ordering::Release);
        if shared.bell.look().is_some_and(|listeners| listeners.sleepers) {
            shared.bell.ring();
            shared.futex.wake();
        }
    }

    fn sleepers(count: usize) {
        let shared =
            Arc::new(Shared { bell: Bell::new(), futex: Futex::new(), news: AtomicU32::new(0) });
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || sleep(&shared))
            })
            .collect();
        tell(&shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.bell.look(), None, "somebody is still announced");
    }

    #[test]
    fn two_sleepers_are_woken() {
        check(|| sleepers(2));
    }

    #[test]
    fn two_ringers_wake_a_sleeper() {
        check(|| {
            let shared = Arc::new(Shared {
                bell: Bell::new(),
                futex: Futex::new(),
                news: AtomicU32::new(0),
            });
            let ringers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || tell(&shared))
                })
                .collect();
            sleep(&shared);
            ringers.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    /// What is left out of the copy.
    #[derive(Clone, Copy, PartialEq)]
    enum Without {
        Nothing,
        TheRingersFence,
        TheSleepersFence,
        /// The ringer wakes, but does not change the word that the sleeper compares.
        TheWord,
    }

    /// The protocol again.
    fn copy(without: Without) {
        let shared =
            Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0), Note::new()));
        let sleeper = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (who, word, news, note) = &*shared;
                let seen = word.load(Ordering::Relaxed);
                who.store(1, Ordering::Relaxed);
                if without != Without::TheSleepersFence {
                    fence(Ordering::SeqCst);
                }
                if news.load(Ordering::Relaxed) == 0 {
                    note.sleep_if(|| word.load(Ordering::SeqCst) == seen);
                }
            })
        };
        let (who, word, news, note) = &*shared;
        news.store(1, Ordering::Release);
        if without != Without::TheRingersFence {
            fence(Ordering::SeqCst);
        }
        if who.load(Ordering::Relaxed) != 0 {
            if without != Without::TheWord {
                word.fetch_add(1, Ordering::SeqCst);
            }
            note.wake();
        }
        sleeper.join().unwrap();
        note.check();
    }

    #[test]
    fn the_copy_holds_with_everything() {
        check(|| copy(Without::Nothing));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_ringers_fence_a_wake_up_is_missed() {
        check(|| copy(Without::TheRingersFence));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_sleepers_fence_a_wake_up_is_missed() {
        check(|| copy(Without::TheSleepersFence));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_word_a_ring_is_lost() {
        check(|| copy(Without::TheWord));
    }
}

mod waiter {
    use super::*;

    struct Shared {
        waiters: [Waiter; 2],
        doorbells: [Doorbell; 2],
        /// One bell for each VI, watched by the waiters that want it.
        bells: [Bell; 2],
        news: [AtomicU32; 2],
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            let shared = Shared {
                waiters: [Waiter::new(), Waiter::new()],
                doorbells: [Doorbell::new(), Doorbell::new()],
                bells: [Bell::new(), Bell::new()],
                news: [AtomicU32::new(0), AtomicU32::new(0)],
            };
            shared.waiters[1].reset(1);
            Arc::new(shared)
        }

        /// As the writer of a VI tells of a message.
        fn tell(&self, vi: usize) {
            self.news[vi].store(1, Ordering::Release);
            let Some(listeners) = self.bells[vi].look() else { return };
            for waiter in 0..2 {
                if listeners.waiters & (1 << waiter) != 0
                    && let Some(doorbell) = self.waiters[waiter].notify(vi as u32)
                {
                    self.doorbells[doorbell as usize].ring();
                }
            }
        }

        /// Waits as an epoll instance does, until each of the VIs has had news.
        fn wait(&self, index: usize, vis: &[usize]) {
            let waiter = &self.waiters[index];
            let mut missing = vis.to_vec();
            // What came before the waiter watched, it finds by looking.
            missing.retain(|&vi| self.news[vi].load(Ordering::Relaxed) == 0);
            loop {
                waiter.drain(|vi| {
                    if self.news[vi as usize].load(Ordering::Relaxed) != 0 {
                        missing.retain(|&m| m != vi as usize);
                    }
                });
                if missing.is_empty() {
                    return;
                }
                waiter.going_to_sleep();
                if !waiter.has_news() {
                    self.doorbells[index].sleep();
                }
                waiter.awake();
            }
        }

        fn watch(&self, index: usize, vis: &[usize]) {
            vis.iter().for_each(|&vi| self.bells[vi].watch(index as u32));
            fence(Ordering::SeqCst);
        }
    }

    fn two_ringers(vis: [usize; 2]) {
        let shared = Shared::new();
        let mut all = vis.to_vec();
        all.dedup();
        shared.watch(0, &all);
        let ringers: Vec<_> = vis
            .into_iter()
            .map(|vi| {
                let shared = shared.clone();
                thread::spawn(move || shared.tell(vi))
            })
            .collect();
        shared.wait(0, &all);
        ringers.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn two_ringers_of_two_vis() {
        check(|| two_ringers([0, 1]));
    }

    #[test]
    fn two_ringers_of_one_vi() {
        check(|| two_ringers([0, 0]));
    }

    #[test]
    fn two_waiters_of_one_vi() {
        check(|| {
            let shared = Shared::new();
            shared.watch(0, &[0]);
            shared.watch(1, &[0]);
            let other = {
                let shared = shared.clone();
                thread::spawn(move || shared.wait(1, &[0]))
            };
            let ringer = {
                let shared = shared.clone();
                thread::spawn(move || shared.tell(0))
            };
            shared.wait(0, &[0]);
            other.join().unwrap();
            ringer.join().unwrap();
        });
    }

    /// A waiter that begins to watch while the news come: it watches, then looks.
    #[test]
    fn watching_begins_in_time() {
        check(|| {
            let shared = Shared::new();
            let ringer = {
                let shared = shared.clone();
                thread::spawn(move || shared.tell(0))
            };
            shared.watch(0, &[0]);
            shared.wait(0, &[0]);
            ringer.join().unwrap();
        });
    }

    /// The waiter's protocol again, with the fence on either side to be left out.
    fn copy(ringer_fence: bool, waiter_fence: bool) {
        let shared = Arc::new((AtomicU32::new(0), AtomicU64::new(0), Note::new()));
        let waiter = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (sleeping, summary, note) = &*shared;
                sleeping.store(1, Ordering::Release);
                if waiter_fence {
                    fence(Ordering::SeqCst);
                }
                if summary.load(Ordering::Relaxed) == 0 {
                    // An eventfd remembers a ring that came before the sleep.
                    note.sleep_if(|| sleeping.load(Ordering::SeqCst) != 0);
                }
            })
        };
        let (sleeping, summary, note) = &*shared;
        summary.fetch_or(1, Ordering::AcqRel);
        if ringer_fence {
            fence(Ordering::SeqCst);
        }
        if sleeping.load(Ordering::Relaxed) != 0
            && sleeping.compare_exchange(1, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            note.wake();
        }
        waiter.join().unwrap();
        note.check();
    }

    #[test]
    fn the_copy_holds_with_everything() {
        check(|| copy(true, true));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_ringers_fence_a_wake_up_is_missed() {
        check(|| copy(false, true));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_waiters_fence_a_wake_up_is_missed() {
        check(|| copy(true, false));
    }
}

/// The lock that leans to its user, as a model: the kernel's barrier is a fence in the favoured
/// thread, wherever it happens to be.
mod bias {
    use super::*;
    use loom::cell::UnsafeCell;

    struct Lock {
        favoured: AtomicU32,
        inside: AtomicU32,
        held: Mutex<()>,
        value: UnsafeCell<u32>,
    }

    fn add(lock: &Lock) {
        // SAFETY: the lock is had; loom checks that nobody else has it.
        lock.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// The favoured thread takes the lock once, with or without another look at its privilege.
    fn favoured(lock: &Lock, looks_again: bool) {
        if lock.favoured.load(Ordering::Relaxed) == 1 {
            lock.inside.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !looks_again || lock.favoured.load(Ordering::Acquire) == 1 {
                add(lock);
                lock.inside.store(0, Ordering::Release);
                return;
            }
            lock.inside.store(0, Ordering::Release);
        }
        let _held = lock.held.lock().unwrap();
        add(lock);
    }

    fn other(lock: &Lock) {
        let _held = lock.held.lock().unwrap();
        lock.favoured.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while lock.inside.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        add(lock);
    }

    fn model(looks_again: bool) {
        let lock = Arc::new(Lock {
            favoured: AtomicU32::new(1),
            inside: AtomicU32::new(0),
            held: Mutex::new(()),
            value: UnsafeCell::new(0),
        });
        let thread = {
            let lock = lock.clone();
            thread::spawn(move || {
                favoured(&lock, looks_again);
                favoured(&lock, looks_again);
            })
        };
        other(&lock);
        thread.join().unwrap();
        // SAFETY: the other thread is gone.
        assert_eq!(lock.value.with(|value| unsafe { *value }), 3);
    }

    #[test]
    fn a_revoked_privilege_is_noticed() {
        check(|| model(true));
    }

    #[test]
    #[should_panic]
    fn without_the_second_look_both_are_inside() {
        check(|| model(false));
    }
}

/// A receive queue that its engine is armed for while a sender sends: the sender sees the arming,
/// or the engine, which looks after that, the message.
mod arming {
    use super::*;

    /// With the crate's own bell and waiter. The engine sleeps at once when it has armed and looked.
    fn engine_and_sender(disarm_first: bool) {
        let shared = Arc::new((Bell::new(), Waiter::new(), Doorbell::new(), AtomicU32::new(0)));
        if disarm_first {
            // A program that polled, and stops to.
            shared.0.watch(0);
            shared.0.unwatch(0);
        }
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (bell, engine, doorbell, message) = &*shared;
                message.store(1, Ordering::Release);
                if bell.look().is_some_and(|listeners| listeners.waiters & 1 != 0)
                    && engine.notify(0).is_some()
                {
                    doorbell.ring();
                }
            })
        };
        let (bell, engine, doorbell, message) = &*shared;
        bell.watch(0);
        fence(Ordering::SeqCst);
        let mut received = message.load(Ordering::Relaxed) != 0;
        while !received {
            engine.going_to_sleep();
            if !engine.has_news() {
                doorbell.sleep();
            }
            engine.awake();
            engine.drain(|_| received |= message.load(Ordering::Relaxed) != 0);
        }
        sender.join().unwrap();
    }

    #[test]
    fn a_message_is_received_or_rung_for() {
        check(|| engine_and_sender(false));
    }

    #[test]
    fn also_after_a_disarming() {
        check(|| engine_and_sender(true));
    }

    /// Arming again, with the fence on either side to be left out.
    fn copy(engine_fence: bool, sender_fence: bool) {
        let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0), Note::new()));
        let engine = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (armed, message, note) = &*shared;
                armed.store(1, Ordering::Release);
                if engine_fence {
                    fence(Ordering::SeqCst);
                }
                if message.load(Ordering::Relaxed) == 0 {
                    note.sleep_if(|| true);
                }
            })
        };
        let (armed, message, note) = &*shared;
        message.store(1, Ordering::Release);
        if sender_fence {
            fence(Ordering::SeqCst);
        }
        let rung = armed.load(Ordering::Relaxed) != 0;
        engine.join().unwrap();
        if rung {
            // The doorbell remembers a ring that came before the sleep.
            note.wake();
        }
        note.check();
    }

    #[test]
    fn the_copy_holds_with_both_fences() {
        check(|| copy(true, true));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_engines_fence_a_message_stays() {
        check(|| copy(false, true));
    }

    #[test]
    #[should_panic(expected = "a missed wake-up")]
    fn without_the_senders_fence_a_message_stays() {
        check(|| copy(true, false));
    }
}

/// An initiator that reaches into memory which is taken away: it says that it reaches and looks at
/// the count of changes, the target changes the count and looks whether it is reached into.
mod reaching {
    use super::*;
    use loom::cell::UnsafeCell;

    struct Shared {
        reaching: AtomicU64,
        count: AtomicU32,
        /// The memory; loom sees whether it is used by both at once.
        memory: UnsafeCell<u32>,
    }

    /// What is left out.
    #[derive(Clone, Copy, PartialEq)]
    enum Without {
        Nothing,
        TheInitiatorsFence,
        TheTargetsFence,
    }

    /// The engine of the initiator may be asked meanwhile, and puts the word right: under the send
    /// queue's lock, which who reaches has.
    fn model(without: Without, heals: bool) {
        let shared = Arc::new(Shared {
            reaching: AtomicU64::new(0),
            count: AtomicU32::new(0),
            memory: UnsafeCell::new(0),
        });
        let queue = Arc::new(Mutex::new(()));
        let initiator = {
            let (shared, queue) = (shared.clone(), queue.clone());
            thread::spawn(move || {
                let _queue = queue.lock().unwrap();
                shared.reaching.store(1, Ordering::Relaxed);
                if without != Without::TheInitiatorsFence {
                    fence(Ordering::SeqCst);
                }
                if shared.count.load(Ordering::Relaxed) == 0 {
                    // SAFETY: the target lets it, and loom checks that it is alone.
                    shared.memory.with_mut(|memory| unsafe { *memory += 1 });
                }
                shared.reaching.store(0, Ordering::Release);
            })
        };
        let engine = heals.then(|| {
            let (shared, queue) = (shared.clone(), queue.clone());
            thread::spawn(move || {
                let _queue = queue.lock().unwrap();
                if shared.reaching.load(Ordering::Relaxed) != 0 {
                    shared.reaching.store(0, Ordering::Release);
                }
            })
        });
        shared.count.store(1, Ordering::Relaxed);
        if without != Without::TheTargetsFence {
            fence(Ordering::SeqCst);
        }
        while shared.reaching.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        // The program's again. SAFETY: nobody reaches into it; loom checks that.
        shared.memory.with_mut(|memory| unsafe { *memory += 1 });
        initiator.join().unwrap();
        if let Some(engine) = engine {
            engine.join().unwrap();
        }
    }

    #[test]
    fn what_is_taken_away_is_not_reached_for() {
        check(|| model(Without::Nothing, false));
    }

    #[test]
    fn nor_when_the_word_is_put_right() {
        check(|| model(Without::Nothing, true));
    }

    #[test]
    #[should_panic]
    fn without_the_initiators_fence_it_is() {
        check(|| model(Without::TheInitiatorsFence, false));
    }

    #[test]
    #[should_panic]
    fn without_the_targets_fence_it_is() {
        check(|| model(Without::TheTargetsFence, false));
    }
}

/// Who serves an RDMA where several are told to: one turned away leaves a mark, for which who is at
/// it looks again.
mod serving {
    use super::*;

    struct Shared {
        /// The lock, which is only ever tried.
        held: AtomicU32,
        again: AtomicU32,
        staged: AtomicU32,
        served: AtomicU32,
    }

    fn serve(shared: &Shared, marks: bool, fences: bool) {
        loop {
            if marks {
                shared.again.swap(1, Ordering::SeqCst);
                if fences {
                    fence(Ordering::SeqCst);
                }
            }
            let free =
                shared.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
            if !free {
                return;
            }
            if marks {
                shared.again.swap(0, Ordering::SeqCst);
            }
            if shared.staged.load(Ordering::Relaxed) != 0 {
                shared.served.store(1, Ordering::Relaxed);
            }
            shared.held.store(0, Ordering::Release);
            if fences {
                fence(Ordering::SeqCst);
            }
            if !marks || shared.again.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }

    fn model(marks: bool, fences: bool) {
        let shared = Arc::new(Shared {
            held: AtomicU32::new(0),
            again: AtomicU32::new(0),
            staged: AtomicU32::new(0),
            served: AtomicU32::new(0),
        });
        // A thread of the program that waits, and looks now and then.
        let helper = {
            let shared = shared.clone();
            thread::spawn(move || serve(&shared, marks, fences))
        };
        // The engine, told of an RDMA.
        shared.staged.store(1, Ordering::Release);
        serve(&shared, marks, fences);
        helper.join().unwrap();
        assert_eq!(shared.served.load(Ordering::Relaxed), 1, "an RDMA is not served");
    }

    #[test]
    fn who_is_turned_away_is_served() {
        check(|| model(true, true));
    }

    #[test]
    #[should_panic(expected = "an RDMA is not served")]
    fn without_the_mark_he_is_not() {
        check(|| model(false, true));
    }

    #[test]
    #[should_panic(expected = "an RDMA is not served")]
    fn without_the_fences_he_is_not() {
        check(|| model(true, false));
    }
}

/// A completion queue that finds its VIs by bits: what a sender has published is found by the look
/// that follows its bit, whatever the rhythm of sending and looking.
mod completion_queue {
    use super::*;

    /// Two messages of one VI, and a queue that looks until it has found both. A look takes a
    /// message; the VI stays ready as long as looks find something, as in `Members::find`.
    fn two_messages() {
        let shared = Arc::new((Bell::new(), Waiter::new(), AtomicU32::new(0)));
        shared.0.watch(1);
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (bell, waiter, sent) = &*shared;
                for n in 1..=2 {
                    sent.store(n, Ordering::Release);
                    if bell.look().is_some_and(|listeners| listeners.waiters & 2 != 0) {
                        waiter.notify(3);
                    }
                }
            })
        };
        let (_, waiter, sent) = &*shared;
        let (mut ready, mut found) = (false, 0);
        let look = |ready: &mut bool, found: &mut u32| {
            waiter.drain(|vi| *ready |= vi == 3);
            while *ready {
                if sent.load(Ordering::Acquire) > *found {
                    *found += 1;
                } else {
                    *ready = false;
                }
            }
        };
        look(&mut ready, &mut found);
        sender.join().unwrap();
        // What was sent while it looked has left its bit.
        look(&mut ready, &mut found);
        assert_eq!(found, 2, "a message without an entry");
    }

    #[test]
    fn every_message_is_found() {
        check(two_messages);
    }

    /// Looking first and clearing the bit afterwards, which is what must not be done.
    #[test]
    #[should_panic(expected = "a message without an entry")]
    fn a_bit_cleared_after_the_look_is_a_message_lost() {
        check(|| {
            let shared = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.1.store(1, Ordering::Release);
                    fence(Ordering::SeqCst);
                    shared.0.fetch_or(1, Ordering::SeqCst);
                })
            };
            let mut found = shared.1.load(Ordering::Acquire);
            shared.0.swap(0, Ordering::SeqCst);
            sender.join().unwrap();
            if shared.0.swap(0, Ordering::SeqCst) != 0 {
                found = shared.1.load(Ordering::Acquire);
            }
            assert_eq!(found, 1, "a message without an entry");
        });
    }

    /// The fence between clearing and looking left out.
    fn copy(clears_with_order: bool) {
        let shared = Arc::new((AtomicU64::new(1), AtomicU32::new(0)));
        let sender = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                // A bit that is set is not set again.
                if shared.0.load(Ordering::Relaxed) & 1 == 0 {
                    shared.0.fetch_or(1, Ordering::SeqCst);
                }
            })
        };
        if clears_with_order {
            shared.0.swap(0, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        } else {
            shared.0.swap(0, Ordering::Relaxed);
        }
        let seen = shared.1.load(Ordering::Relaxed) != 0;
        sender.join().unwrap();
        let marked = shared.0.load(Ordering::Relaxed) != 0;
        assert!(seen || marked, "a message without an entry");
    }

    #[test]
    fn the_copy_holds_with_its_fence() {
        check(|| copy(true));
    }

    #[test]
    #[should_panic(expected = "a message without an entry")]
    fn without_the_fence_a_set_bit_hides_a_message() {
        check(|| copy(false));
    }
}
