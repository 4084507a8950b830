//! Pairs of engines, each as in a process of its own.

use crate::per_engine::Engine;
use crate::{backlog, config, epoll_sets, progress, table};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Transfers of an end before it looks for its peer.
const MEET_AFTER: u32 = 0;

/// Memory that may hold what peers have not read: so little that a case fills it in a moment.
const MEMORY: u64 = 128 << 10;

/// Mode of an engine's progress work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The thread, as in a program.
    Thread,
    /// The case, by [`super::End::round`].
    ByHand,
}

/// Pairs of engines that no connection uses, and the number of pairs that may still be made.
struct Pool {
    free: Mutex<(Vec<[Engine; 2]>, usize)>,
    given_back: Condvar,
}

impl Pool {
    const fn of(most: usize) -> Pool {
        Pool { free: Mutex::new((Vec::new(), most)), given_back: Condvar::new() }
    }
}

/// Engines with progress threads. There are few, because a process has room for 16 threads of the library, and each
/// engine may have several.
static THREADED: Pool = Pool::of(5);
static BY_HAND: Pool = Pool::of(64);

fn pool(progress: Progress) -> &'static Pool {
    match progress {
        Progress::Thread => &THREADED,
        Progress::ByHand => &BY_HAND,
    }
}

/// Two engines, each as in a process of its own: the connector's and the acceptor's.
#[derive(Debug)]
pub(crate) struct Engines {
    pub(super) both: [Engine; 2],
    pub(super) progress: Progress,
    /// Set where a process of the two has died: no other case may have them.
    pub(super) is_dead: AtomicBool,
}

impl Engines {
    /// Takes two engines that have met before, if there are any.
    pub(crate) fn take(progress: Progress) -> Arc<Engines> {
        let pool = pool(progress);
        let mut free = pool.free.lock().unwrap();
        loop {
            if let Some(both) = free.0.pop() {
                return Engines::of(both, progress);
            }
            if free.1 > 0 {
                free.1 -= 1;
                drop(free);
                return Engines::make(progress);
            }
            free = pool.given_back.wait(free).unwrap();
        }
    }

    /// Has connections look for each other's ends after so many transfers.
    pub(crate) fn meet_after(&self, transfers: u32) {
        for engine in self.both {
            engine.run(|| config::meet_after_transfers(transfers));
        }
    }

    /// Has two engines without connections forget that they have met.
    pub(crate) fn part(&self) {
        for engine in self.both {
            engine.run(|| crate::pair::leave_all(epoll_sets::forget_pair));
        }
    }

    fn of(both: [Engine; 2], progress: Progress) -> Arc<Engines> {
        Arc::new(Engines { both, progress, is_dead: AtomicBool::new(false) })
    }

    fn make(progress: Progress) -> Arc<Engines> {
        let both = [Engine::new(), Engine::new()];
        for engine in both {
            engine.run(|| {
                if progress == Progress::ByHand {
                    progress::start_by_hand();
                    backlog::choose(MEMORY);
                }
                // A relay would be a copy of both engines.
                crate::engine::start_alone();
                config::meet_after_transfers(MEET_AFTER);
            });
        }
        Engines::of(both, progress)
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        let is_clean = |engine: &Engine| {
            engine.run(|| {
                if self.progress == Progress::ByHand {
                    backlog::choose(MEMORY);
                }
                config::meet_after_transfers(MEET_AFTER);
                let mut any = false;
                table::for_each_conn(|_, _| any = true);
                !any
            })
        };
        let pool = pool(self.progress);
        // A case that has failed leaves nothing to others.
        let is_dead = self.is_dead.load(Ordering::Relaxed);
        if thread::panicking() || is_dead || !self.both.iter().all(is_clean) {
            if let Ok(mut free) = pool.free.lock() {
                free.1 += 1;
            }
        } else if let Ok(mut free) = pool.free.lock() {
            free.0.push(self.both);
        }
        pool.given_back.notify_one();
    }
}
