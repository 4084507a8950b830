//! System calls that a program makes by number, through libc's `syscall`.

use crate::creating::returns_descriptor;
use libc::{c_int, c_long};
use sovia_calls::descriptors::created;
use sovia_sockets::table::{self, Entry};

hooks! {
    /// Makes a system call by number. Unless the user allows io_uring, reports that the kernel has none, because
    /// operations of io_uring bypass the hooks. System calls that a program makes without libc bypass this hook.
    /// Six arguments are enough for every system call.
    fn syscall(
        number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long,
    ) -> c_long {
        if number == libc::SYS_io_uring_setup && !sovia_sockets::config::io_uring_allowed() {
            crate::set_errno(libc::ENOSYS);
            return -1;
        }
        let kernel = |[a, b, c, d, e, f]: [c_long; 6]| real!()(number, a, b, c, d, e, f);
        if let Some(result) = crate::signals::system_call(number, [a, b, c, d, e, f], kernel) {
            return result;
        }
        system_call(number, [a, b, c, d, e, f], || real!()(number, a, b, c, d, e, f))
    }
}

/// Passes a system call to the hook of the same function, if there is one. `kernel` makes the real system call.
///
/// # Safety
/// The arguments must be valid for the system call `number`.
pub(crate) unsafe fn system_call(
    number: c_long,
    [a, b, c, d, e, f]: [c_long; 6],
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    if number == libc::SYS_mlockall {
        // SAFETY: the call takes only a number.
        return c_long::from(unsafe { crate::memory::mlockall(a as c_int) });
    }
    if matches!(
        number,
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit | libc::SYS_clone | libc::SYS_clone3
    ) || crate::children::is_fork(number)
    {
        // SAFETY: the caller guarantees valid arguments for this system call.
        return unsafe { crate::process::system_call(number, a, kernel) };
    }
    let mut kernel = Some(kernel);
    let mut kernel = || kernel.take().map_or(-1, |kernel| kernel());
    if let Some(result) = crate::credentials::system_call(number, [a, b, c], &mut kernel) {
        return result;
    }
    // SAFETY: the caller guarantees valid arguments for this system call.
    let waited = unsafe { crate::poll::system_call(number, [a, b, c, d, e, f], &mut kernel) };
    if let Some(result) = waited {
        return result;
    }
    // SAFETY: the caller guarantees valid arguments for this system call.
    if let Some(result) = unsafe { crate::limits::system_call(number, [a, b, c, d]) } {
        return result;
    }
    if number == libc::SYS_io_submit {
        return crate::asynchronous::system_call([a, b, c], kernel);
    }
    if number == libc::SYS_pidfd_getfd {
        let (pidfd, fd) = (a as c_int, b as c_int);
        // SAFETY: the call takes only numbers.
        return c_long::from(unsafe { crate::creating::several::pidfd_getfd(pidfd, fd, c as u32) });
    }
    if number == libc::SYS_splice {
        // SAFETY: the caller guarantees valid arguments for splice.
        return unsafe {
            let (from, to) = ((a as c_int, b as *mut i64), (c as c_int, d as *mut i64));
            crate::send::splice(from.0, from.1, to.0, to.1, e as usize, f as u32) as c_long
        };
    }
    if returns_descriptor(number) {
        let fd = kernel();
        created(c_int::try_from(fd).unwrap_or(-1));
        return fd;
    }
    if number == libc::SYS_pipe2 {
        // SAFETY: the caller guarantees valid arguments for pipe2.
        return c_long::from(unsafe {
            crate::creating::several::pipe2(a as *mut c_int, b as c_int)
        });
    }
    if number == libc::SYS_socketpair {
        // SAFETY: the caller guarantees valid arguments for socketpair.
        return c_long::from(unsafe {
            let (domain, kind, protocol) = (a as c_int, b as c_int, c as c_int);
            crate::creating::several::socketpair(domain, kind, protocol, d as *mut c_int)
        });
    }
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_pipe {
        // SAFETY: the caller guarantees valid arguments for pipe.
        return c_long::from(unsafe { crate::creating::several::pipe(a as *mut c_int) });
    }
    let fd = a as c_int;
    let replaces = number == libc::SYS_dup3;
    #[cfg(target_arch = "x86_64")]
    let replaces = replaces || number == libc::SYS_dup2;
    // The call may replace or return another descriptor that is in the table, even if `fd` is not in the table.
    let numbered = matches!(number, libc::SYS_dup | libc::SYS_fcntl | libc::SYS_recvmsg);
    if !replaces
        && !numbered
        && matches!(table::get(fd), Entry::Foreign)
        && number != libc::SYS_close_range
    {
        return kernel();
    }
    // SAFETY: the caller guarantees valid arguments for this system call, and each hook takes the same arguments.
    unsafe {
        match number {
            libc::SYS_read => crate::receive::read(fd, b as *mut _, c as usize) as c_long,
            libc::SYS_write => crate::send::write(fd, b as *const _, c as usize) as c_long,
            libc::SYS_readv => crate::receive::readv(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_writev => crate::send::writev(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_recvfrom => crate::receive::recvfrom(
                fd,
                b as *mut _,
                c as usize,
                d as c_int,
                e as *mut _,
                f as *mut _,
            ) as c_long,
            libc::SYS_sendto => crate::send::sendto(
                fd,
                b as *const _,
                c as usize,
                d as c_int,
                e as *const _,
                f as u32,
            ) as c_long,
            libc::SYS_recvmsg => crate::receive::recvmsg(fd, b as *mut _, c as c_int) as c_long,
            libc::SYS_preadv2 => {
                crate::receive::preadv2(fd, b as *const _, c as c_int, d, f as c_int) as c_long
            }
            libc::SYS_pwritev2 => {
                crate::send::pwritev2(fd, b as *const _, c as c_int, d, f as c_int) as c_long
            }
            libc::SYS_sendfile => {
                crate::send::sendfile(fd, b as c_int, c as *mut _, d as usize) as c_long
            }
            libc::SYS_recvmmsg => c_long::from(crate::receive::recvmmsg(
                fd,
                b as *mut _,
                c as u32,
                d as c_int,
                e as *mut _,
            )),
            libc::SYS_sendmmsg => {
                c_long::from(crate::send::sendmmsg(fd, b as *mut _, c as u32, d as c_int))
            }
            libc::SYS_ioctl => {
                c_long::from(crate::descriptors::ioctl(fd, b as libc::c_ulong, c as usize))
            }
            libc::SYS_sendmsg => crate::send::sendmsg(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_close => c_long::from(crate::descriptors::close(fd)),
            libc::SYS_close_range => {
                c_long::from(crate::descriptors::close_range(a as u32, b as u32, c as c_int))
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2 => c_long::from(crate::descriptors::dup2(fd, b as c_int)),
            libc::SYS_dup => c_long::from(crate::descriptors::dup(fd)),
            libc::SYS_dup3 => c_long::from(crate::descriptors::dup3(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => c_long::from(crate::descriptors::fcntl(fd, b as c_int, c as usize)),
            libc::SYS_setsockopt => {
                let (level, name) = (b as c_int, c as c_int);
                c_long::from(crate::sockets::setsockopt(fd, level, name, d as *const _, e as u32))
            }
            libc::SYS_getsockopt => {
                let (level, name) = (b as c_int, c as c_int);
                c_long::from(crate::sockets::getsockopt(fd, level, name, d as *mut _, e as *mut _))
            }
            libc::SYS_shutdown => c_long::from(crate::sockets::shutdown(fd, b as c_int)),
            _ => kernel(),
        }
    }
}
