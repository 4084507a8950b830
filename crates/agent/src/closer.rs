//! Closes what programs have sent that they should not have. A descriptor can be one whose closing takes as long as its sender
//! likes (a socket that lingers), so a thread of its own waits for that instead of the agent.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use sovia_sys::seqpacket::Packets;
use sovia_sys::{Fd, call};

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
pub(crate) fn start() -> std::io::Result<()> {
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
pub(crate) fn now_of(user: u32) {
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
pub(crate) fn is_busy(user: u32) -> bool {
    waiting(|it| it.of.get(&user).is_some_and(|&count| count >= MOST))
}

/// Empties a socket of a user's program, to which nothing can be sent any more: what lay there would be closed with it.
pub(crate) fn take_leave(packets: &Packets, uid: u32) {
    now_of(uid);
    packets.shutdown();
    // A message without bytes is told from the end by its sender's credentials.
    let _ = call::setsockopt(packets.raw(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1i32);
    let mut bytes = [0; 1];
    while packets.receive(&mut bytes).is_ok_and(|received| received.credentials.is_some()) {}
}
