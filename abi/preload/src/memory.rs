//! Hooks for calls on all memory of the process. Part of the memory is Sovia's.

use crate::finish;
use libc::c_int;

hooks! {
    fn mlockall(flags: c_int) -> c_int {
        finish(sovia_sockets::ops::lock_all(flags)) as c_int
    }
}
