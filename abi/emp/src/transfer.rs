//! Posts sends and receives, and reports their outcomes.

use crate::boundary::enter;
use crate::station::{Emp, station};
use crate::types::{self, ANY_SOURCE, ANY_TAG};
use core::ffi::c_int;
use core::time::Duration;
use emp_eth::{Handle, Outcome, PAGE_PIECES, Piece, PostError, Status};
use smallvec::SmallVec;

/// Pieces of a message. Most messages have few.
type Pieces = SmallVec<[Piece; 8]>;

/// # Safety
/// `iov` must be null or point to `count` entries.
unsafe fn pieces(iov: *const libc::iovec, count: c_int) -> Result<Pieces, c_int> {
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    if count > PAGE_PIECES {
        return Err(libc::EMSGSIZE);
    }
    if count == 0 {
        return Ok(Pieces::new());
    }
    if iov.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: `iov` is not null, so this function's contract makes it point to `count` entries.
    let entries = unsafe { core::slice::from_raw_parts(iov, count) };
    let piece =
        |entry: &libc::iovec| Piece { address: entry.iov_base as u64, length: entry.iov_len };
    Ok(entries.iter().map(piece).collect())
}

fn errno_of(why: PostError) -> c_int {
    match why {
        PostError::Full => libc::EAGAIN,
        PostError::TooLong => libc::EMSGSIZE,
        PostError::UnknownNode => libc::ENXIO,
        PostError::Address => libc::EFAULT,
    }
}

fn told(outcome: &Outcome) -> types::Status {
    let error = match outcome.status {
        Status::Done => 0,
        Status::TooLong => libc::EMSGSIZE,
        Status::PeerDead => libc::EHOSTUNREACH,
        Status::PeerRestarted => libc::ECONNRESET,
        Status::Cancelled => libc::ECANCELED,
        Status::UnknownNode => libc::ENXIO,
        Status::Closed => libc::ENETDOWN,
    };
    types::Status { error, node: outcome.node, tag: outcome.tag, length: outcome.length }
}

/// # Safety
/// The memory in `iov` must not change until the send has ended. `handle` must be null or writable (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_post_send(
    emp: *const Emp,
    node: u16,
    tag: u32,
    iov: *const libc::iovec,
    count: c_int,
    handle: *mut u32,
) -> c_int {
    enter(|| {
        // SAFETY: `emp` is null or an open station, and `iov` is null or has `count` entries, by this function's
        // contract.
        let (station, pieces) = unsafe { (station(emp)?, pieces(iov, count)?) };
        // SAFETY: `handle` is null or writable, by this function's contract.
        let handle = unsafe { handle.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: the memory in `iov` stays valid and unchanged until the send has ended, by this function's contract.
        let posted = unsafe { station.post_send(node, tag, &pieces) };
        *handle = posted.map_err(errno_of)?.raw();
        Ok(())
    })
}

/// # Safety
/// Only the NIC may use the memory in `iov` until the receive has ended. `handle` must be null or writable (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_post_recv(
    emp: *const Emp,
    node: u16,
    tag: i64,
    iov: *const libc::iovec,
    count: c_int,
    handle: *mut u32,
) -> c_int {
    enter(|| {
        // SAFETY: `emp` is null or an open station, and `iov` is null or has `count` entries, by this function's
        // contract.
        let (station, pieces) = unsafe { (station(emp)?, pieces(iov, count)?) };
        // SAFETY: `handle` is null or writable, by this function's contract.
        let handle = unsafe { handle.as_mut() }.ok_or(libc::EINVAL)?;
        let tag = match tag {
            ANY_TAG => None,
            tag => Some(u32::try_from(tag).map_err(|_| libc::EINVAL)?),
        };
        let node = (node != ANY_SOURCE).then_some(node);
        // SAFETY: only the NIC uses the memory in `iov` until the receive has ended, by this function's contract.
        let posted = unsafe { station.post_receive(node, tag, &pieces) };
        *handle = posted.map_err(errno_of)?.raw();
        Ok(())
    })
}

/// Writes the outcome of a transfer to `status`. Fails with `not_yet` if the transfer is still under way.
///
/// # Safety
/// `status` must be null or writable.
unsafe fn tell(
    outcome: Option<Outcome>,
    status: *mut types::Status,
    not_yet: c_int,
) -> Result<(), c_int> {
    let outcome = outcome.ok_or(not_yet)?;
    // SAFETY: `status` is null or writable, by this function's contract.
    if let Some(status) = unsafe { status.as_mut() } {
        *status = told(&outcome);
    }
    Ok(())
}

/// # Safety
/// `status` must be null or writable (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_test(
    emp: *const Emp,
    handle: u32,
    status: *mut types::Status,
) -> c_int {
    enter(|| {
        // SAFETY: `emp` is null or an open station, as `emp.h` requires.
        let outcome = unsafe { station(emp) }?.test(Handle::from_raw(handle));
        // SAFETY: `status` is null or writable, by this function's contract.
        unsafe { tell(outcome.map_err(|_| libc::EINVAL)?, status, libc::EINPROGRESS) }
    })
}

/// # Safety
/// `status` must be null or writable (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_wait(
    emp: *const Emp,
    handle: u32,
    status: *mut types::Status,
    milliseconds: c_int,
) -> c_int {
    enter(|| {
        let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: `emp` is null or an open station, as `emp.h` requires.
        let outcome = unsafe { station(emp) }?.wait(Handle::from_raw(handle), timeout);
        // SAFETY: `status` is null or writable, by this function's contract.
        unsafe { tell(outcome.map_err(|_| libc::EINVAL)?, status, libc::ETIMEDOUT) }
    })
}

/// # Safety
/// `emp` must be null or an open station (`emp.h`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_cancel(emp: *const Emp, handle: u32) -> c_int {
    enter(|| {
        // SAFETY: `emp` is null or an open station, by this function's contract.
        let cancelled = unsafe { station(emp) }?.cancel(Handle::from_raw(handle));
        cancelled.map_err(|_| libc::EINVAL)
    })
}
