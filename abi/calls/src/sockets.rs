//! Connections begin, end, and are configured.

use crate::boundary::{finish, is_bad, outcome};
use libc::{c_int, c_void, sockaddr, socklen_t};
use sovia_sockets::conn::Role;
use sovia_sockets::ops;
use sovia_sockets::retreat::{self, Cause};
use sovia_sockets::table;

/// Records a socket if it is TCP.
fn record(fd: c_int, role: Role) {
    let protocol = sovia_protocol(fd);
    if protocol == libc::IPPROTO_TCP {
        ops::opened(fd, role);
    }
}

fn sovia_protocol(fd: c_int) -> c_int {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: both pointers are to live locals of the right size.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, (&raw mut value).cast(), &mut len)
    };
    if result == 0 { value } else { 0 }
}

calls! {
    fn connect(real, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // A stream that is taken apart and connected anew is another one.
        if let Some(at) = table::conn(fd)
            && !is_bad(address)
            && c_int::from((*address).sa_family) == libc::AF_UNSPEC
        {
            retreat::now(fd, at, Cause::Call);
        }
        let result = real(fd, address, len);
        let error = crate::boundary::errno();
        if (result == 0 || error == libc::EINPROGRESS || error == libc::EINTR)
            && !is_bad(address)
            && matches!(
                c_int::from((*address).sa_family),
                libc::AF_INET | libc::AF_INET6
            )
            && table::conn(fd).is_none()
        {
            record(fd, Role::Connector);
        }
        crate::boundary::set_errno(error);
        result
    }

    fn accept(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let new = real(fd, address, len);
        if new >= 0 {
            record(new, Role::Acceptor);
        }
        new
    }

    fn accept4(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t, how: c_int) -> c_int {
        let new = real(fd, address, len, how);
        if new >= 0 {
            record(new, Role::Acceptor);
        }
        new
    }

    fn shutdown(real, fd: c_int, how: c_int) -> c_int {
        let Some(at) = table::conn(fd) else { return real(fd, how) };
        let kernel = || outcome(real(fd, how) as isize);
        finish(ops::shutdown(fd, at, how, kernel)) as c_int
    }

    fn setsockopt(real,
        fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t,
    ) -> c_int {
        let Some(at) = table::conn(fd) else {
            return real(fd, level, name, value, len);
        };
        // The kernel is to work on the stream itself: then it must have it.
        const SO_ATTACH_REUSEPORT_CBPF: c_int = 51;
        let in_kernel = level == libc::IPPROTO_TCP && name == libc::TCP_ULP
            || level == libc::SOL_SOCKET
                && matches!(
                    name,
                    libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_CBPF
                );
        if in_kernel {
            retreat::now(fd, at, Cause::Ulp);
        }
        // Readiness from a number of bytes on is the kernel's to judge.
        if level == libc::SOL_SOCKET
            && name == libc::SO_RCVLOWAT
            && len as usize >= size_of::<c_int>()
            && !is_bad(value)
            && *value.cast::<c_int>() > 1
        {
            retreat::now(fd, at, Cause::Call);
        }
        let result = real(fd, level, name, value, len);
        if result == 0 {
            ops::note_option(fd, at, level, name);
        }
        result
    }
}
