//! A thread that sleeps for many VIs: bits, a sleep flag and a doorbell.

use super::*;

struct Shared {
    ready_lists: [ReadyList; 2],
    doorbells: [Doorbell; 2],
    /// One [`WakeWord`] for each VI, watched by ready lists.
    wake_words: [WakeWord; 2],
    condvar: [AtomicU32; 2],
}

impl Shared {
    fn new() -> Arc<Shared> {
        let shared = Shared {
            ready_lists: [ReadyList::new(), ReadyList::new()],
            doorbells: [Doorbell::new(), Doorbell::new()],
            wake_words: [WakeWord::new(), WakeWord::new()],
            condvar: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        shared.ready_lists[1].reset(1);
        Arc::new(shared)
    }

    /// Publishes an event like the writer of a VI.
    fn notify(&self, vi: usize) {
        self.condvar[vi].store(1, Ordering::Release);
        let Some(listeners) = self.wake_words[vi].look() else { return };
        for ready_list in 0..2 {
            if listeners.ready_lists & (1 << ready_list) != 0
                && let Some(doorbell) = self.ready_lists[ready_list].notify(vi as u32)
            {
                self.doorbells[doorbell as usize].ring();
            }
        }
    }

    /// Waits like an epoll instance, until each of the VIs has had an event.
    fn wait(&self, index: usize, vis: &[usize]) {
        let ready_list = &self.ready_lists[index];
        let mut missing = vis.to_vec();
        // The first look finds events that were published before the ready list watched.
        missing.retain(|&vi| self.condvar[vi].load(Ordering::Relaxed) == 0);
        loop {
            ready_list.drain(|vi| {
                if self.condvar[vi as usize].load(Ordering::Relaxed) != 0 {
                    missing.retain(|&m| m != vi as usize);
                }
            });
            if missing.is_empty() {
                return;
            }
            ready_list.going_to_sleep();
            if !ready_list.has_events() {
                self.doorbells[index].sleep();
            }
            ready_list.awake();
        }
    }

    fn watch(&self, index: usize, vis: &[usize]) {
        vis.iter().for_each(|&vi| self.wake_words[vi].watch(index as u32));
        fence(Ordering::SeqCst);
    }
}

fn two_notifiers(vis: [usize; 2]) {
    let shared = Shared::new();
    let mut all = vis.to_vec();
    all.dedup();
    shared.watch(0, &all);
    let notifiers: Vec<_> = vis
        .into_iter()
        .map(|vi| {
            let shared = shared.clone();
            thread::spawn(move || shared.notify(vi))
        })
        .collect();
    shared.wait(0, &all);
    notifiers.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn two_notifiers_of_two_vis() {
    check(|| two_notifiers([0, 1]));
}

#[test]
fn two_notifiers_of_one_vi() {
    check(|| two_notifiers([0, 0]));
}

#[test]
fn two_ready_lists_of_one_vi() {
    check(|| {
        let shared = Shared::new();
        shared.watch(0, &[0]);
        shared.watch(1, &[0]);
        let other = {
            let shared = shared.clone();
            thread::spawn(move || shared.wait(1, &[0]))
        };
        let notifier = {
            let shared = shared.clone();
            thread::spawn(move || shared.notify(0))
        };
        shared.wait(0, &[0]);
        other.join().unwrap();
        notifier.join().unwrap();
    });
}

/// A ready list begins to watch while an event is published: it watches first and then looks.
#[test]
fn watching_begins_in_time() {
    check(|| {
        let shared = Shared::new();
        let notifier = {
            let shared = shared.clone();
            thread::spawn(move || shared.notify(0))
        };
        shared.watch(0, &[0]);
        shared.wait(0, &[0]);
        notifier.join().unwrap();
    });
}

/// A copy of the ready list's protocol, with or without the fence on each side.
fn copy(notifier_fence: bool, ready_list_fence: bool) {
    let shared = Arc::new((AtomicU32::new(0), AtomicU64::new(0), Note::new()));
    let ready_list = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (sleeping, summary, note) = &*shared;
            sleeping.store(1, Ordering::Release);
            if ready_list_fence {
                fence(Ordering::SeqCst);
            }
            if summary.load(Ordering::Relaxed) == 0 {
                // An eventfd keeps a write that came before the sleep.
                note.sleep_if(|| sleeping.load(Ordering::SeqCst) != 0);
            }
        })
    };
    let (sleeping, summary, note) = &*shared;
    summary.fetch_or(1, Ordering::AcqRel);
    if notifier_fence {
        fence(Ordering::SeqCst);
    }
    if sleeping.load(Ordering::Relaxed) != 0
        && sleeping.compare_exchange(1, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    {
        note.wake();
    }
    ready_list.join().unwrap();
    note.check();
}

#[test]
fn the_copy_holds_with_everything() {
    check(|| copy(true, true));
}

#[test]
#[should_panic(expected = "a missed wake-up")]
fn without_the_notifiers_fence_a_wake_up_is_missed() {
    check(|| copy(false, true));
}

#[test]
#[should_panic(expected = "a missed wake-up")]
fn without_the_ready_lists_fence_a_wake_up_is_missed() {
    check(|| copy(true, false));
}
