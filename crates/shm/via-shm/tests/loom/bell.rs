//! One end of a direction notifies, and the other end sleeps.

use super::*;

struct Shared {
    bell: Bell,
    futex: Futex,
    news: AtomicU32,
}

/// Waits like a thread that waits for a message.
fn sleep(shared: &Shared) {
    loop {
        let seen = shared.bell.word().load(Ordering::SeqCst);
        shared.bell.going_to_sleep();
        let news = shared.news.load(Ordering::Relaxed) != 0;
        if !news {
            shared.futex.wait(shared.bell.word(), seen);
        }
        if news || shared.news.load(Ordering::Relaxed) != 0 {
            return;
        }
    }
}

fn tell(shared: &Shared) {
    shared.news.store(1, Ordering::Release);
    if shared.bell.look().is_some_and(|listeners| listeners.sleepers) {
        shared.bell.wake(|| shared.futex.wake());
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
    tell(&shared);
    assert_eq!(shared.bell.look(), None, "a sleep is announced that has been rung for");
}

#[test]
fn two_sleepers_are_woken() {
    check(|| sleepers(2));
}

/// A notifier that has counted the sleepers, but not yet woken them, must not hide a sleeper from another notifier.
#[test]
fn sleeper_is_woken_by_the_second_event_while_the_first_notifier_is_stopped() {
    check(|| {
        let shared =
            Arc::new(Shared { bell: Bell::new(), futex: Futex::new(), news: AtomicU32::new(0) });
        let ringer = {
            let shared = shared.clone();
            thread::spawn(move || {
                if shared.bell.look().is_some_and(|listeners| listeners.sleepers) {
                    // The notifier dies before it wakes the sleeper.
                    shared.bell.ring();
                }
            })
        };
        let teller = {
            let shared = shared.clone();
            thread::spawn(move || tell(&shared))
        };
        sleep(&shared);
        ringer.join().unwrap();
        teller.join().unwrap();
    });
}

#[test]
fn two_ringers_wake_a_sleeper() {
    check(|| {
        let shared =
            Arc::new(Shared { bell: Bell::new(), futex: Futex::new(), news: AtomicU32::new(0) });
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

/// The first look finds no sleeper, so the notifier leaves the fence to the sleepers. Under loom each thread executes
/// its own fence.
#[test]
fn a_sleeper_is_woken_by_a_ringer_that_has_left_its_fence() {
    check(|| {
        let shared =
            Arc::new(Shared { bell: Bell::new(), futex: Futex::new(), news: AtomicU32::new(0) });
        let quiet = Quiet::default();
        assert_eq!(quiet.look(&shared.bell), None);
        let sleeper = {
            let shared = shared.clone();
            thread::spawn(move || sleep(&shared))
        };
        // The second look finds the sleeper, or the sleeper has found the event.
        for news in 1..3 {
            shared.news.store(news, Ordering::Release);
            if quiet.look(&shared.bell).is_some_and(|listeners| listeners.sleepers) {
                shared.bell.wake(|| shared.futex.wake());
            }
        }
        sleeper.join().unwrap();
    });
}

/// The step that the copy leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    TheRingersFence,
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
