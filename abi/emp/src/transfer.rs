//! Posts, and what comes of them.

use crate::boundary::enter;
use crate::station::{Emp, station};
use crate::types::{self, ANY_SOURCE, ANY_TAG};
use core::ffi::c_int;
use core::time::Duration;
use emp_eth::{Handle, Outcome, PAGE_PIECES, Piece, PostError, Status};
use smallvec::SmallVec;

/// Pieces, few in most messages.
type Pieces = SmallVec<[Piece; 8]>;

/// # Safety
/// `iov` leads to `count` entries.
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
    // SAFETY: the caller's promise.
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
/// As `emp.h` says: the memory that `iov` names stays as it is until the send has ended; `handle` leads to room for one.
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
        // SAFETY: the caller's promise, of all three.
        let (station, pieces) = unsafe { (station(emp)?, pieces(iov, count)?) };
        // SAFETY: as above.
        let handle = unsafe { handle.as_mut() }.ok_or(libc::EINVAL)?;
        // SAFETY: as above.
        let posted = unsafe { station.post_send(node, tag, &pieces) };
        *handle = posted.map_err(errno_of)?.raw();
        Ok(())
    })
}

/// # Safety
/// As `emp.h` says: the memory that `iov` names is the NIC's until the receive has ended; `handle` leads to room for one.
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
        // SAFETY: the caller's promise, of all three.
        let (station, pieces) = unsafe { (station(emp)?, pieces(iov, count)?) };
        // SAFETY: as above.
        let handle = unsafe { handle.as_mut() }.ok_or(libc::EINVAL)?;
        let tag = match tag {
            ANY_TAG => None,
            tag => Some(u32::try_from(tag).map_err(|_| libc::EINVAL)?),
        };
        let node = (node != ANY_SOURCE).then_some(node);
        // SAFETY: as above.
        let posted = unsafe { station.post_receive(node, tag, &pieces) };
        *handle = posted.map_err(errno_of)?.raw();
        Ok(())
    })
}

/// Tells what has come of a transfer, if anything has.
///
/// # Safety
/// `status` is null, or leads to room for one.
unsafe fn tell(
    outcome: Option<Outcome>,
    status: *mut types::Status,
    not_yet: c_int,
) -> Result<(), c_int> {
    let outcome = outcome.ok_or(not_yet)?;
    // SAFETY: the caller's promise.
    if let Some(status) = unsafe { status.as_mut() } {
        *status = told(&outcome);
    }
    Ok(())
}

/// # Safety
/// As `emp.h` says: `status` is null, or leads to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_test(
    emp: *const Emp,
    handle: u32,
    status: *mut types::Status,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let outcome = unsafe { station(emp) }?.test(Handle::from_raw(handle));
        // SAFETY: as above.
        unsafe { tell(outcome.map_err(|_| libc::EINVAL)?, status, libc::EINPROGRESS) }
    })
}

/// # Safety
/// As `emp.h` says: `status` is null, or leads to room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_wait(
    emp: *const Emp,
    handle: u32,
    status: *mut types::Status,
    milliseconds: c_int,
) -> c_int {
    enter(|| {
        let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
        // SAFETY: the caller's promise.
        let outcome = unsafe { station(emp) }?.wait(Handle::from_raw(handle), timeout);
        // SAFETY: as above.
        unsafe { tell(outcome.map_err(|_| libc::EINVAL)?, status, libc::ETIMEDOUT) }
    })
}

/// # Safety
/// As `emp.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emp_cancel(emp: *const Emp, handle: u32) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let cancelled = unsafe { station(emp) }?.cancel(Handle::from_raw(handle));
        cancelled.map_err(|_| libc::EINVAL)
    })
}
