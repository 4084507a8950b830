//! One end of a direction notifies, and the other end sleeps.

use super::*;

struct Shared {
    wake_word: WakeWord,
    futex: Futex,
    event: AtomicU32,
}

/// Waits like a thread that waits for a message.
fn sleep(shared: &Shared) {
    loop {
        let seen = shared.wake_word.word().load(Ordering::SeqCst);
        shared.wake_word.going_to_sleep();
        let event = shared.event.load(Ordering::Relaxed) != 0;
        if !event {
            shared.futex.wait(shared.wake_word.word(), seen);
        }
        if event || shared.event.load(Ordering::Relaxed) != 0 {
            return;
        }
    }
}

fn notify(shared: &Shared) {
    shared.event.store(1, Ordering::Release);
    if shared.wake_word.look().is_some_and(|listeners| listeners.sleepers) {
        shared.wake_word.wake(|| shared.futex.wake());
    }
}

fn sleepers(count: usize) {
    let shared = Arc::new(Shared {
        wake_word: WakeWord::new(),
        futex: Futex::new(),
        event: AtomicU32::new(0),
    });
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || sleep(&shared))
        })
        .collect();
    notify(&shared);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    notify(&shared);
    assert_eq!(shared.wake_word.look(), None, "a sleep is announced that has been rung for");
}

#[test]
fn two_sleepers_are_woken() {
    check(|| sleepers(2));
}

/// A notifier that has counted the sleepers, but not yet woken them, must not hide a sleeper from another notifier.
#[test]
fn sleeper_is_woken_by_the_second_event_while_the_first_notifier_is_stopped() {
    check(|| {
        let shared = Arc::new(Shared {
            wake_word: WakeWord::new(),
            futex: Futex::new(),
            event: AtomicU32::new(0),
        });
        let stopped_notifier = {
            let shared = shared.clone();
            thread::spawn(move || {
                if shared.wake_word.look().is_some_and(|listeners| listeners.sleepers) {
                    // The notifier dies before it wakes the sleeper.
                    shared.wake_word.ring();
                }
            })
        };
        let other_notifier = {
            let shared = shared.clone();
            thread::spawn(move || notify(&shared))
        };
        sleep(&shared);
        stopped_notifier.join().unwrap();
        other_notifier.join().unwrap();
    });
}

#[test]
fn two_notifiers_wake_a_sleeper() {
    check(|| {
        let shared = Arc::new(Shared {
            wake_word: WakeWord::new(),
            futex: Futex::new(),
            event: AtomicU32::new(0),
        });
        let notifiers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || notify(&shared))
            })
            .collect();
        sleep(&shared);
        notifiers.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The first look finds no sleeper, so the notifier leaves the fence to the sleepers. Under loom each thread executes
/// its own fence.
#[test]
fn a_sleeper_is_woken_by_a_notifier_that_has_left_its_fence() {
    check(|| {
        let shared = Arc::new(Shared {
            wake_word: WakeWord::new(),
            futex: Futex::new(),
            event: AtomicU32::new(0),
        });
        let quiet = Quiet::default();
        assert_eq!(quiet.look(&shared.wake_word), None);
        let sleeper = {
            let shared = shared.clone();
            thread::spawn(move || sleep(&shared))
        };
        // The second look finds the sleeper, or the sleeper has found the event.
        for event in 1..3 {
            shared.event.store(event, Ordering::Release);
            if quiet.look(&shared.wake_word).is_some_and(|listeners| listeners.sleepers) {
                shared.wake_word.wake(|| shared.futex.wake());
            }
        }
        sleeper.join().unwrap();
    });
}

/// The step that the copy leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    TheNotifiersFence,
    TheSleepersFence,
    /// The notifier wakes the sleeper, but does not change the futex word.
    TheWord,
}

/// A copy of the protocol.
fn copy(without: Without) {
    let shared = Arc::new((AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0), Note::new()));
    let sleeper = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (who, word, event, note) = &*shared;
            let seen = word.load(Ordering::Relaxed);
            who.store(1, Ordering::Relaxed);
            if without != Without::TheSleepersFence {
                fence(Ordering::SeqCst);
            }
            if event.load(Ordering::Relaxed) == 0 {
                note.sleep_if(|| word.load(Ordering::SeqCst) == seen);
            }
        })
    };
    let (who, word, event, note) = &*shared;
    event.store(1, Ordering::Release);
    if without != Without::TheNotifiersFence {
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
fn without_the_notifiers_fence_a_wake_up_is_missed() {
    check(|| copy(Without::TheNotifiersFence));
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
