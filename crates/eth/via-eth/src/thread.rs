//! The NIC's own thread: it drives while no thread of the program's does.

use crate::shared::Shared;
use crate::state::Own;
use std::sync::Arc;

/// While threads of the program's drive, it looks in so often, in nanoseconds.
const NAP_NS: u64 = 2_000_000;

/// Starts it; whether that could be.
pub(crate) fn start(shared: Arc<Shared>) -> bool {
    std::thread::Builder::new().name("ethernet".into()).spawn(move || run(&shared)).is_ok()
}

fn run(shared: &Shared) {
    let mut driven = 0;
    loop {
        let mut state = shared.lock();
        state.world.medium().look_at_clock();
        while state.drive() > 0 {
            state.world.medium().look_at_clock();
        }
        state.acknowledge();
        state.settle();
        if state.is_closing && state.world.is_quiet() {
            return shared.leave(state);
        }
        let heard = shared.bell.heard();
        if state.driven != driven {
            driven = state.driven;
            state.own = Own::Awake;
            shared.leave(state);
            shared.bell.sleep(heard, Some(NAP_NS));
        } else if state.watcher.is_some() {
            state.own = Own::Sleeps;
            shared.leave(state);
            shared.bell.sleep(heard, None);
        } else {
            let terms = state.terms(None);
            state.own = Own::Watches(terms.until);
            shared.leave(state);
            let found = shared.own.sleep(&terms);
            let mut state = shared.lock();
            state.own = Own::Awake;
            state.woken(found.news);
            shared.leave(state);
        }
    }
}
