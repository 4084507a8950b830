//! The NIC's own thread, which drives while no thread of the program does.

use crate::driven::Driven;
use crate::shared::Shared;
use crate::state::{Own, SPINNING};
use sovia_link::Time;
use std::sync::Arc;

/// Nanoseconds between two looks of the thread, while threads of the program drive.
const NAP_NS: u64 = 2_000_000;

/// Starts the thread. Returns false if this fails.
pub(crate) fn start<M: Driven>(shared: Arc<Shared<M>>) -> bool {
    std::thread::Builder::new().name(M::THREAD.into()).spawn(move || run(&shared)).is_ok()
}

fn run<M: Driven>(shared: &Shared<M>) {
    let mut driven = 0;
    loop {
        let mut state = shared.lock();
        let looks = state.driven.wrapping_sub(driven);
        driven = state.driven;
        let spins = looks >= SPINNING && !state.is_closing;
        // With a registered callback, the thread handles frames at once, although the program drives as well.
        let program_drives = spins && !state.world.has_registered();
        state.own = Own::Awake;
        state.world.medium().look_at_clock();
        if !program_drives {
            while state.drive() > 0 {
                state.world.medium().look_at_clock();
            }
        }
        // A spinning program may be about to answer. If the program does not answer, it acknowledges.
        let waits_for_answer = spins && (state.acknowledges_later || !program_drives);
        if !waits_for_answer {
            state.acknowledge();
        }
        state.settle();
        if state.is_closing && state.world.is_quiet() {
            return shared.leave(state);
        }
        let heard = shared.bell.heard();
        if program_drives {
            state.own = Own::Naps;
            // No thread sleeps on the descriptors, so changes of the medium would go unnoticed.
            state.woken(true);
            state.settle();
            shared.leave(state);
            shared.bell.sleep(heard, Some(NAP_NS));
        } else if state.watcher.is_some() {
            state.own = Own::Sleeps;
            shared.leave(state);
            shared.bell.sleep(heard, None);
        } else {
            // The program may have stopped spinning by then.
            let owes = waits_for_answer && state.world.owes();
            let until = owes.then(|| Time::from_nanos(state.world.medium().now().nanos() + NAP_NS));
            let terms = state.terms(until);
            state.own = Own::Watches(terms.until.map(Time::from_nanos));
            shared.leave(state);
            let found = shared.own.sleep(&terms);
            let mut state = shared.lock();
            state.own = Own::Awake;
            state.woken(found.news);
            shared.leave(state);
        }
    }
}
