//! The NIC's own thread: it drives while no thread of the program's does.

use crate::driven::Driven;
use crate::shared::Shared;
use crate::state::{Own, SPINNING};
use sovia_link::Time;
use std::sync::Arc;

/// While threads of the program's drive, it looks in so often, in nanoseconds.
const NAP_NS: u64 = 2_000_000;

/// Starts it; whether that could be.
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
        // What is registered is brought at once, though the program may see to the network as well.
        let program_drives = spins && !state.world.has_registered();
        state.own = Own::Awake;
        state.world.medium().look_at_clock();
        if !program_drives {
            while state.drive() > 0 {
                state.world.medium().look_at_clock();
            }
        }
        // A program that spins may be about to answer, and acknowledges if not.
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
            // No thread sleeps on the descriptors, which would tell.
            state.woken(true);
            state.settle();
            shared.leave(state);
            shared.bell.sleep(heard, Some(NAP_NS));
        } else if state.watcher.is_some() {
            state.own = Own::Sleeps;
            shared.leave(state);
            shared.bell.sleep(heard, None);
        } else {
            // It may have stopped spinning by then.
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
