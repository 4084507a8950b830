//! Closes descriptors that programs should not have sent. Closing can take as long as the sender likes, for example
//! with a lingering socket. So a thread of its own closes them, and the agent does not wait.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use sovia_sys::seqpacket::Packets;
use sovia_sys::{Fd, call};

/// Number of a user's unclosed descriptors from which the agent accepts no more programs of this user.
const MOST: usize = 64;

static QUEUE: OnceLock<Sender<(Fd, u32)>> = OnceLock::new();
static WAITING: Mutex<Option<Waiting>> = Mutex::new(None);

/// Descriptors that wait to be closed.
#[derive(Debug, Default)]
struct Waiting {
    /// The user to whom descriptors received now belong.
    user: u32,
    of: HashMap<u32, usize>,
}

fn waiting<R>(work: impl FnOnce(&mut Waiting) -> R) -> R {
    let mut waiting: MutexGuard<'_, _> = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    work(waiting.get_or_insert_default())
}

/// Starts the thread that closes descriptors.
///
/// # Errors
/// The system cannot start a thread.
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

/// Assigns descriptors received from now on to `user`.
pub(crate) fn now_of(user: u32) {
    waiting(|it| it.user = user);
}

fn dispose(fd: Fd) {
    if let Some(queue) = QUEUE.get() {
        let user = waiting(|it| {
            *it.of.entry(it.user).or_default() += 1;
            it.user
        });
        // This cannot fail: the thread lives as long as the process.
        let _ = queue.send((fd, user));
    }
}

/// Returns true if so many descriptors of `user` wait that the agent must not accept more of the user's programs.
pub(crate) fn is_busy(user: u32) -> bool {
    waiting(|it| it.of.get(&user).is_some_and(|&count| count >= MOST))
}

/// Shuts down a program's socket and takes all messages from it. Otherwise their descriptors would be closed with the
/// socket, in the calling thread.
pub(crate) fn take_leave(packets: &Packets, uid: u32) {
    now_of(uid);
    packets.shutdown();
    // With credentials, a message without bytes differs from the end of the stream.
    let _ = call::setsockopt(packets.raw(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1i32);
    let mut bytes = [0; 1];
    while packets.receive(&mut bytes).is_ok_and(|received| received.credentials.is_some()) {}
}
