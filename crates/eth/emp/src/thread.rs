//! The NIC's thread.

use crate::config::Mode;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};
use std::sync::Arc;
use std::thread::JoinHandle;

/// While calls do its work, it looks in so often, in nanoseconds: a program that stops calling is not to look dead to its peers.
const NAP_NS: u64 = 200_000;
/// A program that has looked so often since this thread did is spinning.
const SPINNING: u64 = 16;

/// Starts it.
///
/// # Errors
/// There can be no more threads.
pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("emp-nic".into());
    thread.spawn(move || {
        match shared.mode {
            Mode::Thread { processor } => {
                if let Some(processor) = processor {
                    // Where there is no such processor the thread runs on any.
                    let _ = call::run_on(processor);
                }
                drive_always(&shared);
            }
            Mode::Calls => drive_between(&shared),
        }
        let mut nic = shared.nic();
        nic.close(&shared.array);
        // Threads that wait are told.
        shared.tell(1);
    })
}

fn is_closing(shared: &Shared) -> bool {
    // SYNC: with the release of `Shared::close`.
    shared.is_closing.load(Ordering::Acquire)
}

/// Looks for posts and frames all the time, and sleeps where there have been none for a while.
fn drive_always(shared: &Shared) {
    let mut busy_at = clock::now_ns();
    while !is_closing(shared) {
        shared.let_others();
        let mut nic = shared.nic();
        let had_posts = nic.has_posts(&shared.array);
        let came = shared.drive_held(&mut nic);
        let now = clock::now_ns();
        if came > 0 || had_posts {
            busy_at = now;
        } else if now.saturating_sub(busy_at) > shared.spin_ns {
            nic.acknowledge(&shared.array);
            shared.watch(nic);
            busy_at = clock::now_ns();
        }
    }
}

/// Looks after the port while no call does.
fn drive_between(shared: &Shared) {
    let mut driven = 0;
    while !is_closing(shared) {
        let heard = shared.heard();
        // A call that has the NIC does what there is.
        let Some(mut nic) = shared.nic_if_free() else {
            shared.nap(heard, NAP_NS);
            continue;
        };
        while shared.drive_held(&mut nic) > 0 {}
        nic.acknowledge(&shared.array);
        let looks = nic.driven.wrapping_sub(driven);
        driven = nic.driven;
        if looks >= SPINNING && !shared.has_sleepers() {
            // No thread sleeps on the descriptors, which would tell.
            nic.woken(true);
            drop(nic);
            shared.nap(heard, NAP_NS);
        } else {
            shared.watch(nic);
        }
    }
}
