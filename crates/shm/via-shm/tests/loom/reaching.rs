//! An initiator that reaches into memory which is taken away: it says that it reaches and looks at
//! the count of changes, the target changes the count and looks whether it is reached into.

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
/// queue's lock, which the reaching thread holds.
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
    // The program's again. SAFETY: no thread reaches into it; loom checks that.
    shared.memory.with_mut(|memory| unsafe { *memory += 1 });
    initiator.join().unwrap();
    if let Some(engine) = engine {
        engine.join().unwrap();
    }
}

#[test]
fn deregistered_memory_is_not_reached_for() {
    check(|| model(Without::Nothing, false));
}

#[test]
fn deregister_waits_even_if_reaching_word_is_repaired() {
    check(|| model(Without::Nothing, true));
}

#[test]
#[should_panic]
fn deregistered_memory_is_reached_for_without_the_initiators_fence() {
    check(|| model(Without::TheInitiatorsFence, false));
}

#[test]
#[should_panic]
fn deregistered_memory_is_reached_for_without_the_targets_fence() {
    check(|| model(Without::TheTargetsFence, false));
}
