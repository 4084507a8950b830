//! A completion queue of native VIs finds its VIs by bits. The look that follows a sender's bit must find the sender's
//! message, in every interleaving of sending and looking.

use super::*;

/// Sends two messages on one VI, while a queue looks until it has found both. Each look takes a message. The VI stays
/// ready as long as looks find something, as in `AttachedVis::find` of `via-shm`.
fn two_messages() {
    let shared = Arc::new((WakeWord::new(), ReadyList::new(), AtomicU32::new(0)));
    shared.0.watch(1);
    let sender = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (wake_word, ready_list, sent) = &*shared;
            for n in 1..=2 {
                sent.store(n, Ordering::Release);
                if wake_word.look().is_some_and(|listeners| listeners.ready_lists & 2 != 0) {
                    ready_list.notify(3);
                }
            }
        })
    };
    let (_, ready_list, sent) = &*shared;
    let (mut ready, mut found) = (false, 0);
    let look = |ready: &mut bool, found: &mut u32| {
        ready_list.drain(|vi| *ready |= vi == 3);
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
    // A message sent during the look has set its bit.
    look(&mut ready, &mut found);
    assert_eq!(found, 2, "a message without an entry");
}

#[test]
fn every_message_is_found() {
    check(two_messages);
}

/// Looks first and clears the bit afterwards, which is wrong.
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

/// A copy of the protocol, with or without the fence between clearing the bit and looking.
fn copy(clears_with_order: bool) {
    let shared = Arc::new((AtomicU64::new(1), AtomicU32::new(0)));
    let sender = {
        let shared = shared.clone();
        thread::spawn(move || {
            shared.1.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            // The sender does not set a bit that is set.
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
