//! System calls that a program makes through libc's `syscall` on descriptors that are ours.

use libc::{c_int, c_long};
use sovia_sockets::table::{self, Entry};

/// Serves the calls that would otherwise get past the hooks; `kernel` makes the real one.
///
/// # Safety
/// The arguments must be valid for that system call.
pub(crate) unsafe fn system_call(
    number: c_long,
    [a, b, c, d, e, f]: [c_long; 6],
    kernel: impl FnOnce() -> c_long,
) -> c_long {
    if number == libc::SYS_mlockall {
        // SAFETY: takes a number only.
        return c_long::from(unsafe { crate::memory::mlockall(a as c_int) });
    }
    let fd = a as c_int;
    if matches!(table::get(fd), Entry::Foreign) && number != libc::SYS_close_range {
        return kernel();
    }
    // SAFETY: the arguments are those of the call of that number, which is what each hook takes.
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
            libc::SYS_sendmsg => crate::send::sendmsg(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_close => c_long::from(crate::descriptors::close(fd)),
            libc::SYS_close_range => {
                c_long::from(crate::descriptors::close_range(a as u32, b as u32, c as c_int))
            }
            libc::SYS_dup => c_long::from(crate::descriptors::dup(fd)),
            libc::SYS_dup3 => c_long::from(crate::descriptors::dup3(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => c_long::from(crate::descriptors::fcntl(fd, b as c_int, c as usize)),
            libc::SYS_shutdown => c_long::from(crate::sockets::shutdown(fd, b as c_int)),
            _ => kernel(),
        }
    }
}
