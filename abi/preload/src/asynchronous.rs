//! Asynchronous I/O, which bypasses the hooks. For POSIX's functions, threads of libc make the system calls. For
//! `io_submit`, the kernel itself executes the requests. So connections with such requests move to TCP for good.

use libc::{aiocb, c_int, c_long, sigevent};
use sovia_calls::boundary::take;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::table;

/// Moves the connection of a request to TCP, before libc's threads get the request.
///
/// # Safety
/// `request` must be null or valid.
unsafe fn before(request: *const aiocb) {
    // SAFETY: the caller guarantees that `request` is null or valid.
    if let Some(request) = unsafe { request.as_ref() }
        && let Some(at) = table::conn(request.aio_fildes)
    {
        fallback::now(request.aio_fildes, at, Cause::Call);
    }
}

/// Like [`before`], for a list of requests.
///
/// # Safety
/// `list` must have `count` pointers, each null or valid.
unsafe fn before_all(list: *const *mut aiocb, count: c_int) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller guarantees `count` pointers in `list`, each null or valid.
        unsafe { before(*list.add(i)) };
    }
}

/// First fields of a request to the kernel (`struct iocb`), up to the descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
struct Iocb {
    data: u64,
    key_and_flags: [u32; 2],
    operation: u16,
    priority: i16,
    descriptor: u32,
}

/// Handles the system call `io_submit`: moves the connections of all requests to TCP, then calls `kernel`. `kernel`
/// makes the real system call, which reports requests that cannot be read.
pub(crate) fn system_call(
    [_, count, list]: [c_long; 3],
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    let list = list as *const *const Iocb;
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program owns the memory. Every bit pattern is a valid pointer, and a valid `Iocb`.
        let request = unsafe { take(list.wrapping_add(i)).and_then(|request| take(request)) };
        let Ok(request) = request else { break };
        let fd = request.descriptor as c_int;
        if let Some(at) = table::conn(fd) {
            fallback::now(fd, at, Cause::Call);
        }
    }
    kernel()
}

// On 64-bit processors, functions whose names end in 64 use the same structures.
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
