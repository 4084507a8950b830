//! Direct access of an initiator to memory that the target is revoking. The initiator sets `reaching` and then loads
//! the count of changes. The target changes the count and then loads `reaching`.

use super::*;
use loom::cell::UnsafeCell;

struct Shared {
    reaching: AtomicU64,
    count: AtomicU32,
    /// The target's memory. loom reports two accesses at once.
    memory: UnsafeCell<u32>,
}

/// The step that the model leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    TheInitiatorsFence,
    TheTargetsFence,
}

/// Runs initiator and target. With `heals`, the initiator's engine also corrects the word `reaching`, under the send
/// queue's lock. The initiator holds this lock during an access.
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
                // SAFETY: the count of changes allows the access; loom checks that the target does not access the
                // memory at the same time.
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
    // SAFETY: the initiator no longer accesses the memory, which belongs to the program again; loom checks this.
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
