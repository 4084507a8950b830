//! Limits of address space. What the library has mapped would count, though it is no memory: 20 GB for each
//! peer. So it is given back before there is a limit, and connections stay on TCP under it.

use libc::{c_int, c_long, pid_t, rlimit};
use sovia_calls::boundary::take_if;
use sovia_sockets::credentials::limit_memory;
use sovia_sockets::process::is_confined;

/// A limit above this is none for what is mapped here.
const HUGE: u64 = 1 << 44;

/// Whether a call puts a limit on this process's address space.
///
/// # Safety
/// `new` is what the program has passed; the memory may be unmapped.
unsafe fn limits(resource: u32, new: *const rlimit) -> bool {
    // SAFETY: plain numbers.
    let limit = || unsafe { take_if(new) }.ok().flatten();
    resource == libc::RLIMIT_AS && !is_confined() && limit().is_some_and(|new| new.rlim_cur < HUGE)
}

fn is_own(process: pid_t) -> bool {
    // SAFETY: asks for a number.
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

/// A limit set by a system call's number; `None` if it is not that.
///
/// # Safety
/// The arguments must be valid for that system call.
pub(crate) unsafe fn system_call(number: c_long, [a, b, c, d]: [c_long; 4]) -> Option<c_long> {
    // SAFETY: as the caller vouches.
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
