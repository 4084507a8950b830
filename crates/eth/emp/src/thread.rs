//! The NIC's thread.

use crate::config::Mode;
use crate::shared::Shared;
use core::sync::atomic::Ordering;
use sovia_sys::{call, clock};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Nanoseconds between two looks of the thread, while calls do the NIC's work. The looks keep a program alive for its
/// peers when it stops calling.
const NAP_NS: u64 = 200_000;
/// Number of looks that make a program count as spinning, since the last look of this thread.
const SPINNING: u64 = 16;

/// Starts the thread.
///
/// # Errors
/// Returns an error if no thread can be created.
pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("emp-nic".into());
    thread.spawn(move || {
        match shared.mode {
            Mode::Thread { processor } => {
                if let Some(processor) = processor {
                    // If the processor does not exist, the thread runs on any processor.
                    let _ = call::run_on(processor);
                }
                drive_always(&shared);
            }
            Mode::Calls => drive_between(&shared),
        }
        let mut nic = shared.nic();
        nic.close(&shared.array);
        // Wakes waiting threads, which then see that their posts have ended.
        shared.tell(1);
    })
}

fn is_closing(shared: &Shared) -> bool {
    // SYNC: pairs with the Release store in `Shared::close`.
    shared.is_closing.load(Ordering::Acquire)
}

/// Polls for posts and frames, and sleeps after an idle time.
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

/// Drives the NIC while no call does.
fn drive_between(shared: &Shared) {
    let mut driven = 0;
    while !is_closing(shared) {
        let heard = shared.heard();
        // A call that holds the lock does the work.
        let Some(mut nic) = shared.nic_if_free() else {
            shared.nap(heard, NAP_NS);
            continue;
        };
        while shared.drive_held(&mut nic) > 0 {}
        nic.acknowledge(&shared.array);
        let looks = nic.driven.wrapping_sub(driven);
        driven = nic.driven;
        if looks >= SPINNING && !shared.has_sleepers() {
            // No thread sleeps on the descriptors, so changes of the port would go unnoticed.
            nic.woken(true);
            drop(nic);
            shared.nap(heard, NAP_NS);
        } else {
            shared.watch(nic);
        }
    }
}
