//! A sleeper on many VIs: bits, a flag, and a doorbell.

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
