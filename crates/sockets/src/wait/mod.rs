//! Waits for one connection. A wait spins for a while, then sleeps.
//!
//! Spinning pays if the peer answers within microseconds, because a sleep and a wake-up cost as much as a hundred
//! messages between spinning threads. `spin` decides how long a thread spins.

mod cancel;
mod spin;

pub use cancel::cancelling;
pub(crate) use cancel::{cancellable, cancellation_point, ignore_cancellation};
pub(crate) use spin::Spin;

use crate::conn::{Guard, WakeWord};
use crate::pair::{self, Pair};
use crate::stream::{WatchedWords, combine, listeners};
use crate::table::{self, Ref};
use crate::{Errno, kernel_sockets};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_signal::chain;
use sovia_signal::interrupt::Moment;
use sovia_sync::hazard::Waits;
use sovia_sys::{call, clock, futex};

/// Event that ends a wait: bytes or room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Bytes to receive.
    Receive,
    /// Room to send.
    Send,
}

/// Reason why a wait ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The deadline has passed, a signal has come, or the descriptor was closed. The program gets this error.
    Failed(Errno),
    /// The connection fell back to TCP meanwhile. The caller must make the kernel's call.
    Plain,
}

/// Interval in nanoseconds at which a spinning thread checks TCP, if the direction's bytes come on TCP.
const TCP_NS: u64 = 8_000;

/// Number of successive spins that find a change but nothing for this thread. After this number, the wait sleeps.
/// The changes were for another thread, or a process has written invalid values.
pub(crate) const FRUITLESS: u32 = 64;

/// A program's call that may have to wait.
#[derive(Debug)]
pub struct Call {
    fd: i32,
    at: Ref,
    /// Time at which the call must give up, in [`clock::now_ns`]; `None`: never.
    pub(crate) deadline: Option<u64>,
    /// Time of the call's begin. A signal handler that runs later interrupts the call.
    since: Moment,
    /// Set if every signal handler ends the call, because the call has moved bytes, or the kernel never restarts
    /// it.
    pub(crate) ends_at_handler: bool,
}

impl Call {
    /// Begins a call. Take `since` before the call checks or moves anything. A signal handler that runs after
    /// `since` ends the call, like in the kernel.
    pub fn begin(fd: i32, at: Ref, deadline: Option<u64>, since: Moment) -> Call {
        Call { fd, at, deadline, since, ends_at_handler: false }
    }

    /// Returns true if the kernel would restart the interrupted call and not let it fail.
    fn is_made_anew(&self) -> bool {
        !self.ends_at_handler
            && self.deadline.is_none()
            && self.since.is_interrupted()
            && !self.since.is_not_to_restart()
    }
}

/// Tries `attempt` until it returns a value, and waits between tries.
///
/// # Errors
/// [`Ended`]: `EAGAIN` at the deadline, `EINTR` for a signal, `EBADF` if the connection was closed. [`Ended::Plain`] if
/// the connection fell back to TCP.
pub fn until<T>(
    call: &mut Call,
    want: Want,
    mut attempt: impl FnMut(&mut Guard<'_>) -> Option<T>,
) -> Result<T, Ended> {
    let conn = call.at.conn;
    let waits = begin();
    waits.keep(conn.address());
    // Count this thread only after `keep`. A thread that closes the descriptor then finds each counted thread.
    conn.begin_waiting();
    let result = loop {
        match attempt_until(call, want, &waits, &mut attempt) {
            Err(Ended::Failed(libc::EINTR)) if call.is_made_anew() => {
                call.since = Moment::now();
                if !table::refers(call.fd, call.at) {
                    // The signal handler has closed the descriptor.
                    break Err(Ended::Failed(libc::EBADF));
                }
            }
            result => break result,
        }
    };
    conn.end_waiting();
    drop(waits);
    result
}

/// Begins a wait that keeps nothing mapped yet ([`pair::keep`]). Ends earlier waits of this thread that a signal
/// handler has left by `longjmp`.
#[inline]
pub(crate) fn begin() -> Waits {
    Waits::begin(!chain::is_in_handler())
}

fn attempt_until<T>(
    call: &Call,
    want: Want,
    waits: &Waits,
    attempt: &mut impl FnMut(&mut Guard<'_>) -> Option<T>,
) -> Result<T, Ended> {
    let mut fruitless = 0;
    loop {
        let (watch, worth, wake_word) = {
            let mut guard = attached(call.at)?;
            if let Some(value) = attempt(&mut guard) {
                return Ok(value);
            }
            let wake_word = match want {
                Want::Receive => listeners::receive_wake_word(&guard, waits),
                Want::Send => listeners::room_wake_word(&guard, waits),
            };
            let worth = pair::of(&guard).is_some_and(Pair::worth_spinning);
            (WatchedWords::new(&guard, waits), worth, wake_word)
        };
        let around = WaitContext { watch: &watch, wake_word, worth };
        let looked = wait_once(call, want, &around, &mut fruitless, attempt)?;
        if let Some(value) = looked {
            return Ok(value);
        }
    }
}

/// Objects that a wait uses.
struct WaitContext<'w> {
    watch: &'w WatchedWords<'w>,
    /// Futex word on which the wait sleeps.
    wake_word: &'w WakeWord,
    /// Set if spinning may help.
    worth: bool,
}

fn wait_once<T>(
    call: &Call,
    want: Want,
    around: &WaitContext<'_>,
    fruitless: &mut u32,
    attempt: &mut impl FnMut(&mut Guard<'_>) -> Option<T>,
) -> Result<Option<T>, Ended> {
    combine::before_waiting();
    let (at, deadline) = (call.at, call.deadline);
    let WaitContext { watch, wake_word, worth } = *around;
    let mut spin = Spin::begin(worth);
    let word = wake_word.word();
    let before = word.load(Ordering::SeqCst);
    let found = match want {
        // Check TCP now and then, because bytes on TCP change no word in memory.
        Want::Receive if !watch.is_on_vi() => {
            let mut looked = Ok(None);
            let found = spin.run(
                || watch.changed(),
                TCP_NS,
                || {
                    looked = once(at, attempt);
                    !matches!(looked, Ok(None))
                },
            );
            if !matches!(looked, Ok(None)) {
                spin.learn();
                return looked;
            }
            found
        }
        Want::Receive => spin.run(|| watch.changed(), u64::MAX / 2, || false),
        Want::Send => {
            // Spin only briefly. The peer makes room by words that this spin does not read.
            let mut left = 200;
            spin.run(
                || {
                    left -= 1;
                    left == 0 || watch.changed()
                },
                u64::MAX / 2,
                || false,
            )
        }
    };
    if found {
        if let Some(value) = once(at, attempt)? {
            spin.learn();
            return Ok(Some(value));
        }
        spin.was_in_vain();
        *fruitless += 1;
        if want == Want::Receive && *fruitless < FRUITLESS {
            return match deadline {
                Some(deadline) if clock::now_ns() >= deadline => Err(Ended::Failed(libc::EAGAIN)),
                _ => Ok(None),
            };
        }
    }
    *fruitless = 0;
    kernel_sockets::ensure();
    wake_word.going_to_sleep();
    let result = match once(at, attempt) {
        Ok(None) => {
            at.conn.sleeping();
            match sleep(word, before, call) {
                Ok(()) => Ok(None),
                // Look once more, like the kernel. The process may have got no processor since the event.
                Err(libc::EAGAIN) => match once(at, attempt) {
                    Ok(None) => Err(Ended::Failed(libc::EAGAIN)),
                    other => other,
                },
                Err(error) => Err(Ended::Failed(error)),
            }
        }
        other => other,
    };
    spin.learn();
    result
}

/// Takes the lock of the connection. Fails if the connection's generation has ended, or if the connection has no VI
/// in this process.
#[inline]
fn attached(at: Ref) -> Result<Guard<'static>, Ended> {
    let locked = at.conn.lock();
    if !at.conn.is_generation(at.generation) {
        return Err(Ended::Failed(libc::EBADF));
    }
    locked.attached().ok_or(Ended::Plain)
}

/// Tries `attempt` once.
///
/// # Errors
/// Like [`until`]; `EAGAIN` if `attempt` returns no value.
pub fn look<T>(at: Ref, mut attempt: impl FnMut(&mut Guard<'_>) -> Option<T>) -> Result<T, Ended> {
    if let Some(value) = once(at, &mut attempt)? {
        return Ok(value);
    }
    if kernel_sockets::ensure_for_a_look()
        && let Some(value) = once(at, &mut attempt)?
    {
        return Ok(value);
    }
    Err(Ended::Failed(libc::EAGAIN))
}

fn once<T>(
    at: Ref,
    attempt: &mut impl FnMut(&mut Guard<'_>) -> Option<T>,
) -> Result<Option<T>, Ended> {
    let mut guard = attached(at)?;
    Ok(attempt(&mut guard))
}

fn sleep(word: &AtomicU32, before: u32, of: &Call) -> Result<(), Errno> {
    // If every handler must end the call, sleep with a time limit. A signal handler always interrupts such a sleep,
    // even a handler unknown to Sovia. A sleep without a time limit continues after a handler with SA_RESTART.
    const LONG_NS: u64 = 3_600_000_000_000;
    let left = match of.deadline {
        None => of.ends_at_handler.then_some(LONG_NS),
        Some(deadline) => match deadline.checked_sub(clock::now_ns()) {
            None | Some(0) => return Err(libc::EAGAIN),
            left => left,
        },
    };
    let left = kernel_sockets::shortened(left);
    crate::stats::slept();
    match cancellable(|| futex::wait_by(|call| of.since.make(call), word, before, left)) {
        Ok(()) | Err(call::Errno::EAGAIN) => Ok(()),
        Err(call::Errno::ETIMEDOUT) if of.deadline.is_none_or(|end| clock::now_ns() < end) => {
            Ok(())
        }
        Err(call::Errno::ETIMEDOUT) => Err(libc::EAGAIN),
        Err(e) => Err(crate::errno(e)),
    }
}

/// Prepares for a call that may block in the kernel, and that waits for no VI. If a fork has ended the progress thread,
/// starts the thread again, because peers may need this process during the call.
#[inline]
pub fn before_kernel_wait() {
    kernel_sockets::before_kernel_wait();
}

/// Returns the time of the monotonic clock in nanoseconds.
pub fn now_ns() -> u64 {
    clock::now_ns()
}
