//! Several threads want to serve an RDMA, and one of them holds the lock. A thread that finds the lock taken sets a
//! mark, and the holder then looks again.

use super::*;

struct Shared {
    /// A lock that threads only try to take.
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
        let free = shared.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
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
    // A waiting thread of the program, which looks from time to time.
    let helper = {
        let shared = shared.clone();
        thread::spawn(move || serve(&shared, marks, fences))
    };
    // The engine, woken for an RDMA.
    shared.staged.store(1, Ordering::Release);
    serve(&shared, marks, fences);
    helper.join().unwrap();
    assert_eq!(shared.served.load(Ordering::Relaxed), 1, "an RDMA is not served");
}

#[test]
fn rdma_ready_list_is_served_by_the_lock_holder() {
    check(|| model(true, true));
}

#[test]
#[should_panic(expected = "an RDMA is not served")]
fn rdma_ready_list_starves_without_the_mark() {
    check(|| model(false, true));
}

#[test]
#[should_panic(expected = "an RDMA is not served")]
fn rdma_ready_list_starves_without_seqcst_fences() {
    check(|| model(true, false));
}
