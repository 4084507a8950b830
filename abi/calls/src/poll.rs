//! poll, select and epoll.

mod epoll;
mod select;

pub use epoll::{epoll_create, epoll_create1, epoll_ctl, epoll_pwait, epoll_pwait2, epoll_wait};
pub use select::{pselect, select};

use crate::boundary::{finish, may_look, take_if, take_mask};
use libc::{c_int, nfds_t, pollfd, sigset_t, timespec};
use sovia_signal::access::{self, Fault};
use sovia_sockets::pollset::{self, OnTcp, PollCall};
use sovia_sockets::process::PLAIN;
use sovia_sockets::wait::before_kernel_wait;
use sovia_sockets::{Errno, table};

fn ns(ts: &timespec) -> Option<u64> {
    let (s, n) = (u64::try_from(ts.tv_sec).ok()?, u64::try_from(ts.tv_nsec).ok()?);
    (n < 1_000_000_000).then(|| s.saturating_mul(1_000_000_000).saturating_add(n))
}

fn ms(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

/// Maximum length of a list of descriptors on the stack. Longer lists are on the heap.
const FEW: usize = 16;

const NONE: pollfd = pollfd { fd: -1, events: 0, revents: 0 };

/// Waits for the descriptors in the program's list, if one of them is an accelerated connection. If none is,
/// returns an [`OnTcp`]. The caller must then make the real call, and must keep the [`OnTcp`] until that call has
/// returned. Reads the time-out and the mask only for an accelerated connection.
///
/// # Safety
/// `fds` and `mask` must be pointers that the program passed.
unsafe fn poll_any(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: impl FnOnce() -> Result<Option<u64>, Errno>,
    mask: *const sigset_t,
) -> Result<c_int, OnTcp> {
    // The kernel refuses a count that is out of range.
    if count == 0 || count as usize > table::FDS || !may_look() {
        return Err(OnTcp::default());
    }
    let count = count as usize;
    if count > FEW {
        let mut many = vec![NONE; count];
        // SAFETY: the caller guarantees that the program passed `fds` and `mask`.
        return unsafe { poll_copy(fds, &mut many, timeout, mask) };
    }
    let mut few = [NONE; FEW];
    // SAFETY: the caller guarantees that the program passed `fds` and `mask`.
    unsafe { poll_copy(fds, &mut few[..count], timeout, mask) }
}

/// # Safety
/// Same as [`poll_any`].
unsafe fn poll_copy(
    fds: *mut pollfd,
    list: &mut [pollfd],
    timeout: impl FnOnce() -> Result<Option<u64>, Errno>,
    mask: *const sigset_t,
) -> Result<c_int, OnTcp> {
    // SAFETY: `list` has room for all bytes, and every bit pattern is a valid entry. The program owns the memory at
    // `fds`.
    if unsafe { access::copy(list.as_mut_ptr().cast(), fds.cast(), size_of_val(list)) }.is_err() {
        return Err(OnTcp::default());
    }
    if let Some(on_tcp) = pollset::for_kernel(list) {
        return Err(on_tcp);
    }
    // SAFETY: the caller guarantees that the program passed `mask`.
    let result = timeout()
        .and_then(|timeout| Ok((timeout, unsafe { take_mask(mask) }?)))
        .and_then(|(timeout, mask)| pollset::wait(list, PollCall::Poll, timeout, mask.as_ref()));
    if result == Err(PLAIN) {
        return Err(OnTcp::default());
    }
    if result.is_ok() {
        let mut fault = Fault::none();
        for (i, p) in list.iter().enumerate() {
            let to = fds.wrapping_add(i);
            // SAFETY: the program owns the entry. The block computes the address of `revents`, and creates no
            // reference.
            unsafe {
                access::store_word((&raw mut (*to).revents).cast(), p.revents as u16, &mut fault)
            };
        }
        if fault.check().is_err() {
            return Ok(finish(Err(libc::EFAULT)) as c_int);
        }
    }
    Ok(finish(result) as c_int)
}

/// Reads a time-out, in nanoseconds. Returns `None` for a null pointer.
///
/// # Safety
/// `timeout` must be a pointer that the program passed.
unsafe fn limit(timeout: *const timespec) -> Result<Option<u64>, Errno> {
    // SAFETY: the program owns the memory, and every bit pattern is a valid `timespec`.
    match unsafe { take_if(timeout) }? {
        None => Ok(None),
        Some(time) => ns(&time).map(Some).ok_or(libc::EINVAL),
    }
}

calls! {
    fn poll(real, fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
        poll_any(fds, count, || Ok(ms(timeout)), core::ptr::null())
            .unwrap_or_else(|_on_tcp| {
                before_kernel_wait();
                real(fds, count, timeout)
            })
    }

    fn ppoll(real,
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        poll_any(fds, count, || limit(timeout), mask)
            .unwrap_or_else(|_on_tcp| {
                before_kernel_wait();
                real(fds, count, timeout, mask)
            })
    }
}

#[cfg(test)]
mod tests;
