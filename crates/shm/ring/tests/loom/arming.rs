//! The engine of native VIs arms a receive queue while a sender sends. The sender must see the arming, or the engine's
//! next look must find the message.

use super::*;

/// Uses the crate's own [`WakeWord`] and [`ReadyList`]. The engine sleeps at once after it has armed the queue and
/// looked.
fn engine_and_sender(disarm_first: bool) {
    let shared = Arc::new((WakeWord::new(), ReadyList::new(), Doorbell::new(), AtomicU32::new(0)));
    if disarm_first {
        // The program has polled before, and has stopped.
        shared.0.watch(0);
        shared.0.unwatch(0);
    }
    let sender = {
        let shared = shared.clone();
        thread::spawn(move || {
            let (wake_word, engine, doorbell, message) = &*shared;
            message.store(1, Ordering::Release);
            if wake_word.look().is_some_and(|listeners| listeners.ready_lists & 1 != 0)
                && engine.notify(0).is_some()
            {
                doorbell.ring();
            }
        })
    };
    let (wake_word, engine, doorbell, message) = &*shared;
    wake_word.watch(0);
    fence(Ordering::SeqCst);
    let mut received = message.load(Ordering::Relaxed) != 0;
    while !received {
        engine.going_to_sleep();
        if !engine.has_events() {
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
fn a_message_is_received_or_rung_for_after_a_disarming() {
    check(|| engine_and_sender(true));
}

/// A copy of the protocol, with or without the fence on each side.
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
        // The doorbell keeps a write that came before the sleep.
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
