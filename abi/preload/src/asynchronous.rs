//! POSIX asynchronous I/O: threads of libc's own make the kernel's calls, past every hook. What it is used
//! on is the kernel's for good.

use libc::{aiocb, c_int, sigevent};
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table;

/// The descriptor of a request is about to be handed to libc's threads.
///
/// # Safety
/// `request` must be null or valid.
unsafe fn before(request: *const aiocb) {
    // SAFETY: as the caller vouches.
    if let Some(request) = unsafe { request.as_ref() }
        && let Some(at) = table::conn(request.aio_fildes)
    {
        retreat::now(request.aio_fildes, at, Cause::Call);
    }
}

/// Likewise, for a list.
///
/// # Safety
/// `list` must have `count` pointers, each null or valid.
unsafe fn before_all(list: *const *mut aiocb, count: c_int) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as the caller vouches.
        unsafe { before(*list.add(i)) };
    }
}

// On 64-bit machines a request of the functions that end in 64 has the same layout.
hooks! {
    fn aio_read(request: *mut aiocb) -> c_int {
        before(request);
        real!()(request)
    }

    fn aio_read64(request: *mut aiocb) -> c_int {
        aio_read(request)
    }

    fn aio_write(request: *mut aiocb) -> c_int {
        before(request);
        real!()(request)
    }

    fn aio_write64(request: *mut aiocb) -> c_int {
        aio_write(request)
    }

    fn lio_listio(
        mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent,
    ) -> c_int {
        before_all(list, count);
        real!()(mode, list, count, event)
    }

    fn lio_listio64(
        mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent,
    ) -> c_int {
        lio_listio(mode, list, count, event)
    }
}
