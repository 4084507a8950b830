//! The parts of the program's memory that a send takes, one after the other, and a short write of several parts, which
//! goes as one packet.

use super::rest::send_slowly;
use super::{Begun, is_sent_at_once, send_generally, send_or_kernel};
use crate::conn::{INLINE_MAX, flag};
use crate::ops::transfer::Flags;
use crate::stream::{self, Put};
use crate::table::Ref;
use crate::{Errno, Outcome};
use sovia_signal::access::{self, BadAddress};
use sovia_sys::{UserSlice, UserSliceMut};

/// A write of several parts that have no more bytes than this goes as one packet.
pub(super) const SHORT: usize = 4096;

/// Sends parts that fit into an entry of the queue together, on a connection that has a VI.
#[inline(never)]
pub(super) fn send_joined(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    kernel: impl FnOnce() -> Outcome,
) -> Outcome {
    let mut joined = [0u8; INLINE_MAX];
    let total = length(parts);
    if join(parts, (&mut joined).into()).is_err() {
        // What the connection has to say comes before what the memory has.
        return send_generally(fd, at, parts, flags, kernel);
    }
    let bytes = joined[..total].into();
    if is_sent_at_once(at, bytes) {
        return Ok(total);
    }
    send_generally(fd, at, &[bytes], flags, kernel)
}

/// Sends a few parts that need a place in the pool, as one packet.
#[inline(never)]
pub(super) fn send_short(
    fd: i32,
    at: Ref,
    parts: &[UserSlice<'_>],
    flags: Flags,
    begun: Begun,
    kernel: impl FnOnce() -> Outcome,
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

/// Gathers the parts where the packet lies. `None` if there is no place for one now, or the packet is not
/// to be sent at once.
#[inline(never)]
fn send_in_place(fd: i32, at: Ref, parts: &[UserSlice<'_>], total: usize) -> Option<Outcome> {
    let mut guard = at.attached()?;
    if !stream::packets_go_at_once(&guard, total) {
        return None;
    }
    let stream::Place::Here(memory) = stream::lend(&mut guard, total as u32) else { return None };
    // SAFETY: a lent place has as many bytes, and no other thread uses it while the lock is held.
    let place = unsafe { UserSliceMut::new(memory.as_ptr(), total) };
    let put = match join(parts, place) {
        Ok(()) => stream::commit(&mut guard, fd, place.into(), total),
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

/// Copies the program's parts to memory of ours, one after the other; as many bytes as that has room for.
fn join(parts: &[UserSlice<'_>], mut out: UserSliceMut<'_>) -> Result<(), Errno> {
    for part in parts {
        let n = part.len().min(out.len());
        // SAFETY: both have as many bytes. The target is lent to no other call, so the program does not name it.
        unsafe { access::copy(out.as_mut_ptr(), part.as_ptr(), n) }
            .map_err(|BadAddress| libc::EFAULT)?;
        out = out.skip(n);
    }
    Ok(())
}

/// Bytes of a send that the kernel copies before it takes any of them.
const COPIED_AT_ONCE: usize = 32 << 10;
const PAGE: usize = 4096;

/// Returns false if a part is not there that the kernel would copy before it takes any byte.
pub(super) fn are_there(parts: &[UserSlice<'_>]) -> bool {
    let [_, _, ..] = parts else { return true };
    let mut left = COPIED_AT_ONCE;
    parts.iter().all(|part| {
        let copied = part.len().min(left);
        left -= copied;
        let is_there = |at| {
            // SAFETY: within the part. A byte that cannot be read is an error.
            unsafe { access::load::<u8>(part.as_ptr().wrapping_add(at)).is_ok() }
        };
        (0..copied).step_by(PAGE).chain(copied.checked_sub(1)).all(is_there)
    })
}

pub(super) fn length(parts: &[UserSlice<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Returns what is left of all parts where so many bytes have been sent.
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

/// Returns what is left of the first part that has not been sent.
pub(super) fn rest_of<'a>(parts: &[UserSlice<'a>], done: usize) -> Option<UserSlice<'a>> {
    all_of(parts, done).next()
}
