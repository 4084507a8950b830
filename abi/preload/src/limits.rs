//! Hooks for limits of the address space. The library maps 20 GB of address space for each peer. These mappings
//! count towards the limit, although they use little memory. So before a limit applies, the library removes its
//! mappings. After that all connections stay on TCP.

use libc::{c_int, c_long, pid_t, rlimit};
use sovia_calls::boundary::take_if;
use sovia_sockets::credentials::limit_memory;
use sovia_sockets::process::is_under_seccomp;

/// Smallest limit that leaves enough address space for the library, in bytes.
const HUGE: u64 = 1 << 44;

/// Returns true if a call with these arguments limits the address space so much that the library must unmap its
/// memory.
///
/// # Safety
/// `new` must be a pointer that the program passed. Its memory may be unmapped.
unsafe fn limits(resource: u32, new: *const rlimit) -> bool {
    // SAFETY: the program owns the memory, and every bit pattern is a valid `rlimit`.
    let limit = || unsafe { take_if(new) }.ok().flatten();
    resource == libc::RLIMIT_AS
        && !is_under_seccomp()
        && limit().is_some_and(|new| new.rlim_cur < HUGE)
}

fn is_own(process: pid_t) -> bool {
    // SAFETY: `getpid` takes no arguments.
    process == 0 || process == unsafe { libc::getpid() }
}

hooks! {
    fn setrlimit(resource: u32, new: *const rlimit) -> c_int {
        match limits(resource, new) {
            true => limit_memory(|| real!()(resource, new)),
            false => real!()(resource, new),
        }
    }

    fn setrlimit64(resource: u32, new: *const rlimit) -> c_int {
        setrlimit(resource, new)
    }

    fn prlimit(process: pid_t, resource: u32, new: *const rlimit, old: *mut rlimit) -> c_int {
        match is_own(process) && limits(resource, new) {
            true => limit_memory(|| real!()(process, resource, new, old)),
            false => real!()(process, resource, new, old),
        }
    }

    fn prlimit64(process: pid_t, resource: u32, new: *const rlimit, old: *mut rlimit) -> c_int {
        prlimit(process, resource, new, old)
    }
}

/// Handles a system call that sets a limit. Returns `None` for other system calls.
///
/// # Safety
/// The arguments must be valid for the system call `number`.
pub(crate) unsafe fn system_call(number: c_long, [a, b, c, d]: [c_long; 4]) -> Option<c_long> {
    // SAFETY: the caller guarantees valid arguments for this system call.
    let result = unsafe {
        match number {
            libc::SYS_setrlimit => setrlimit(a as u32, b as *const rlimit),
            libc::SYS_prlimit64 => {
                prlimit(a as pid_t, b as u32, c as *const rlimit, d as *mut rlimit)
            }
            _ => return None,
        }
    };
    Some(c_long::from(result))
}
