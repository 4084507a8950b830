//! Hooks for calls that affect all memory of the process, including Sovia's memory.

use crate::finish;
use libc::c_int;

hooks! {
    fn mlockall(flags: c_int) -> c_int {
        finish(sovia_sockets::ops::lock_all(flags)) as c_int
    }
}
