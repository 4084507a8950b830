//! Hooks that duplicate, close and configure descriptors.

use libc::{DIR, c_int, c_uint, c_ulong};
use sovia_calls as calls;
use sovia_calls::descriptors::created;
use sovia_sockets::credentials::own_descriptors;
use sovia_sockets::ops;
use sovia_sockets::process::is_borrowed;
use sovia_sockets::table::{self, Entry};

hooks! {
    fn close(fd: c_int) -> c_int {
        calls::descriptors::close(later!(), fd)
    }

    fn closedir(folder: *mut DIR) -> c_int {
        if !folder.is_null() {
            created(libc::dirfd(folder));
        }
        real!()(folder)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE as c_int;
        const CLOEXEC: c_int = libc::CLOSE_RANGE_CLOEXEC as c_int;
        if first > last || flags & !(UNSHARE | CLOEXEC) != 0 {
            // The kernel will refuse the call.
            return real!()(first, last, flags);
        }
        let flags = match flags & UNSHARE {
            0 => flags,
            // From here on only this thread uses its descriptor table in the kernel. Either the kernel has copied
            // the table for this thread, or no other thread used it.
            _ => flags & own_descriptors(|| !UNSHARE, || !0),
        };
        // Sovia's own descriptors must stay open. So the loop closes the ranges between them.
        let top = last.min(table::FDS as c_uint - 1);
        let mut from = first;
        let mut fd = first;
        let borrowed = is_borrowed();
        while fd <= top {
            match table::get(fd as c_int) {
                Entry::Private => {
                    if fd > from && real!()(from, fd - 1, flags) != 0 {
                        return -1;
                    }
                    from = fd + 1;
                }
                Entry::Foreign => {}
                _ if flags & CLOEXEC != 0 || borrowed => {}
                _ => ops::close(fd as c_int),
            }
            fd += 1;
        }
        if from > last {
            return 0;
        }
        real!()(from, last, flags)
    }

    fn closefrom(first: c_int) -> () {
        let real_missing = reals::closefrom.address() == 0;
        if real_missing {
            return;
        }
        close_range(first.max(0) as c_uint, c_uint::MAX, 0);
    }

    fn dup(fd: c_int) -> c_int {
        calls::descriptors::dup(later!(), fd)
    }

    fn dup2(fd: c_int, to: c_int) -> c_int {
        calls::descriptors::dup2(later!(), fd, to)
    }

    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
        calls::descriptors::dup3(later!(), fd, to, flags)
    }

    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        calls::descriptors::fcntl(later!(), fd, command, argument)
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        calls::descriptors::fcntl(later!(), fd, command, argument)
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int {
        calls::descriptors::ioctl(later!(), fd, request, argument)
    }
}
