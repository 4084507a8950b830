//! Calls on all memory of the program, which is not ours.

use crate::finish;
use libc::c_int;

hooks! {
    fn mlockall(flags: c_int) -> c_int {
        finish(sovia_sockets::ops::lock_all(flags)) as c_int
    }
}
