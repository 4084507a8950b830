//! Closes what programs have sent. They have nothing to send but bytes; a descriptor that comes all the same can be one whose
//! closing takes as long as its sender likes, so a thread of its own waits for that instead of the agent.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use sovia_sys::Fd;

/// With so many descriptors of a user's to be closed no more of its programs are taken in.
const MOST: usize = 64;

static QUEUE: OnceLock<Sender<(Fd, u32)>> = OnceLock::new();
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// What waits to be closed.
#[derive(Debug, Default)]
struct Waiting {
    /// Whose descriptors come just now.
    user: u32,
    of: HashMap<u32, usize>,
}

fn waiting<R>(work: impl FnOnce(&mut Waiting) -> R) -> R {
    let mut waiting: MutexGuard<'_, _> = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    work(waiting.get_or_insert_default())
}

/// Starts the thread.
///
/// # Errors
/// The system has none.
pub(super) fn start() -> std::io::Result<()> {
    let (give, given) = channel::<(Fd, u32)>();
    let close = move || {
        for (fd, user) in given {
            drop(fd);
            waiting(|it| {
                if let Some(count) = it.of.get_mut(&user) {
                    *count -= 1;
                }
            });
        }
    };
    if QUEUE.set(give).is_ok() {
        Builder::new().name("closer".into()).spawn(close)?;
        sovia_sys::fd::dispose_by(dispose);
    }
    Ok(())
}

/// Descriptors that come from now on are that user's.
pub(super) fn now_of(user: u32) {
    waiting(|it| it.user = user);
}

fn dispose(fd: Fd) {
    if let Some(queue) = QUEUE.get() {
        let user = waiting(|it| {
            *it.of.entry(it.user).or_default() += 1;
            it.user
        });
        // The thread lives as long as the process.
        let _ = queue.send((fd, user));
    }
}

/// Whether there is so much of a user's to close that no more of its programs must be taken in.
pub(super) fn is_busy(user: u32) -> bool {
    waiting(|it| it.of.get(&user).is_some_and(|&count| count >= MOST))
}
