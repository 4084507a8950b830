//! Reads the buffers of a send in order. Combines a short write of several buffers into one packet.

use super::rest::send_slowly;
use super::{CallState, is_sent_at_once, send_generally, send_or_kernel};
use crate::conn::{INLINE_MAX, flag};
use crate::ops::transfer::Flags;
use crate::stream::{self, Put};
use crate::table::{self, Ref};
use crate::{Errno, Outcome};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, UserSliceMut};

/// Largest number of bytes for which a write of several parts is sent as one packet.
pub(super) const SHORT: usize = 4096;

/// Joins `parts`, which fit into one ring entry together, and sends them as one packet. The connection has a VI.
#[inline(never)]
pub(super) fn send_joined(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let mut joined = [0u8; INLINE_MAX];
    let total = length(parts);
    if join(parts, (&mut joined).into()).is_err() {
        // An error of the connection has precedence over EFAULT, so let the general path find the error.
        return send_generally(fd, at, parts, flags, kernel);
    }
    let bytes = joined[..total].into();
    if is_sent_at_once(at, bytes) {
        return Ok(total);
    }
    send_generally(fd, at, &[bytes], flags, kernel)
}

/// Sends `parts`, which need pool space together, as one packet.
#[inline(never)]
pub(super) fn send_short(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: CallState,
    kernel: &impl Fn() -> Outcome,
) -> Outcome {
    let total = length(parts);
    match send_in_place(fd, at, parts, total) {
        Some(Ok(done)) if done < total => {
            if flags.dont_wait || at.conn.has(flag::NONBLOCK) {
                return Ok(done);
            }
            send_slowly(fd, at, parts, flags, begun, done)
        }
        Some(result) => result,
        None => send_or_kernel(fd, at, parts, flags, begun, kernel),
    }
}

/// Copies `parts` straight into the pool and sends them as one packet. Returns `None` if the pool has no room now,
/// or if the packet must not be sent at once.
#[inline(never)]
fn send_in_place(fd: i32, at: Ref, parts: &[UserSlice<'_>], total: usize) -> Option<Outcome> {
    let mut guard = at.attached()?;
    if !stream::packets_go_at_once(&guard, total) {
        return None;
    }
    let stream::LendResult::Here(memory) = stream::lend(&mut guard, total as u32) else {
        return None;
    };
    // SAFETY: the pool slot that `lend` returned has `total` bytes. No other thread uses the slot while this thread
    // holds the connection's lock.
    let place = unsafe { UserSliceMut::new(memory.as_ptr(), total) };
    let put = match join(parts, place) {
        Ok(()) => stream::commit(&mut guard, table::current(fd, at), place.into(), total),
        Err(error) => Put::Failed(error),
    };
    if put != Put::Bytes(total) {
        stream::take_back(&mut guard);
    }
    match put {
        Put::Bytes(n) => Some(Ok(n)),
        Put::Failed(e) => Some(Err(e)),
        Put::AskKernel | Put::Full => None,
    }
}

/// Copies the program's parts, in order, to `out` until `out` is full.
fn join(parts: &[UserSlice<'_>], mut out: UserSliceMut<'_>) -> Result<(), Errno> {
    for part in parts {
        let n = part.len().min(out.len());
        // SAFETY: both ranges have at least `n` bytes. No other call has `out`, so `out` and the program's part do
        // not overlap.
        unsafe { access::copy(out.as_mut_ptr(), part.as_ptr(), n) }
            .map_err(|BadAddress| libc::EFAULT)?;
        out = out.skip(n);
    }
    Ok(())
}

/// Number of bytes that the kernel copies before it sends any byte.
const COPIED_AT_ONCE: usize = 32 << 10;
const PAGE: usize = 4096;

/// Returns false if the kernel would fail with EFAULT before it sends any byte. Checks the first `COPIED_AT_ONCE`
/// bytes.
pub(super) fn are_there(parts: &[UserSlice<'_>]) -> bool {
    let [_, _, ..] = parts else { return true };
    let mut left = COPIED_AT_ONCE;
    parts.iter().all(|part| {
        let copied = part.len().min(left);
        left -= copied;
        let is_there = |at| {
            // SAFETY: the address lies within the part, and `access::load` reports an unreadable byte as an error.
            unsafe { access::load::<u8>(part.as_ptr().wrapping_add(at)).is_ok() }
        };
        (0..copied).step_by(PAGE).chain(copied.checked_sub(1)).all(is_there)
    })
}

pub(super) fn length(parts: &[UserSlice<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Returns the unsent remainder of each part, if the first `done` bytes have been sent.
pub(super) fn all_of<'a>(
    parts: &[UserSlice<'a>],
    mut done: usize,
) -> impl Iterator<Item = UserSlice<'a>> {
    parts.iter().filter_map(move |part| {
        let sent = done.min(part.len());
        done -= sent;
        Some(part.skip(sent)).filter(|rest| !rest.is_empty())
    })
}

/// Returns the unsent remainder of the first part with unsent bytes, if the first `done` bytes have been sent.
pub(super) fn rest_of<'a>(parts: &[UserSlice<'a>], done: usize) -> Option<UserSlice<'a>> {
    all_of(parts, done).next()
}
