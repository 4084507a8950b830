//! Opens, accepts, configures and shuts down connections.

use crate::boundary::{finish, give, outcome, take};
use crate::descriptors::created;
use core::mem::offset_of;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{c_int, c_void, sa_family_t, sockaddr, sockaddr_storage, socklen_t, time_t, timeval};
use sovia_signal::access::{self, BadAddress};
use sovia_sockets::conn::Role;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::process::is_under_seccomp;
use sovia_sockets::rendezvous::Server;
use sovia_sockets::table::{self, Ref};
use sovia_sockets::wait::before_kernel_wait;
use sovia_sockets::{ops, options};
use sovia_sys::call;

/// Records `fd`, the result of `socket`, if the socket is TCP. Returns `fd`.
pub fn made(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let kind = kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    if fd >= 0
        && matches!(domain, libc::AF_INET | libc::AF_INET6)
        && kind == libc::SOCK_STREAM
        && matches!(protocol, libc::IPPROTO_IP | libc::IPPROTO_TCP)
    {
        table::note_new_tcp(fd);
    }
    fd
}

/// Records an accepted socket if it is a TCP socket.
fn record_accepted(fd: c_int, listener: c_int) {
    if is_under_seccomp() {
        return;
    }
    if !table::is_noted_tcp(listener) {
        if !call::is_tcp(fd) {
            return;
        }
        if call::is_tcp(listener) {
            table::note_tcp(listener);
        }
    }
    ops::opened(fd, Role::Acceptor, Server::Listener(listener));
}

/// Returns the server's address, from the argument of the program's `connect`.
fn server(address: *const sockaddr) -> Server {
    let family = family(address);
    // SAFETY: the program owns the memory, and every bit pattern is a valid address.
    let server = unsafe {
        match family {
            Some(libc::AF_INET) => take(address.cast::<libc::sockaddr_in>()).map(|a| {
                let ip = Ipv4Addr::from(u32::from_be(a.sin_addr.s_addr));
                SocketAddr::from((ip, u16::from_be(a.sin_port)))
            }),
            Some(libc::AF_INET6) => take(address.cast::<libc::sockaddr_in6>()).map(|a| {
                SocketAddr::from((Ipv6Addr::from(a.sin6_addr.s6_addr), u16::from_be(a.sin6_port)))
            }),
            _ => return Server::Unknown,
        }
    };
    server.map_or(Server::Unknown, Server::At)
}

/// Returns true for an option that lets the kernel process the bytes of the stream. The connection must then be on
/// TCP.
fn needs_kernel(level: c_int, name: c_int) -> bool {
    const SO_ATTACH_REUSEPORT_CBPF: c_int = 51;
    match level {
        libc::IPPROTO_TCP => name == libc::TCP_ULP,
        libc::SOL_SOCKET => {
            matches!(name, libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | SO_ATTACH_REUSEPORT_CBPF)
        }
        _ => false,
    }
}

/// Returns true if an option sets a negative time-out. Calls on such a socket never wait. But the kernel reports a
/// negative time-out as 0, which otherwise means no time-out.
fn is_negative_time_out(level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> bool {
    level == libc::SOL_SOCKET
        && matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
        && len as usize >= size_of::<timeval>()
        // SAFETY: the program owns the memory, and every bit pattern is a valid integer.
        && unsafe { take(value.cast::<time_t>()) }.is_ok_and(|seconds| seconds < 0)
}

/// Returns true if the kernel accepts addresses of `len` bytes, and the address's last byte can be read.
fn is_an_address(address: *const sockaddr, len: socklen_t) -> bool {
    let range = size_of::<sa_family_t>()..=size_of::<sockaddr_storage>();
    let last = address.cast::<u8>().wrapping_add((len as usize).wrapping_sub(1));
    // SAFETY: the program owns the memory, and every bit pattern is a valid byte.
    range.contains(&(len as usize)) && unsafe { take(last) }.is_ok()
}

/// Returns an address's family, or `None` if the address cannot be read.
fn family(address: *const sockaddr) -> Option<c_int> {
    // SAFETY: the program owns the memory, and every bit pattern is a valid family.
    unsafe { take(&raw const (*address).sa_family) }.ok().map(c_int::from)
}

calls! {
    fn connect(real, fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        if let Some(at) = table::conn(fd)
            && family(address) == Some(libc::AF_UNSPEC)
            && is_an_address(address, len)
        {
            ops::disconnect(fd, at);
        }
        let result = real(fd, address, len);
        let error = crate::boundary::errno();
        if (result == 0 || error == libc::EINPROGRESS || error == libc::EINTR)
            && matches!(family(address), Some(libc::AF_INET | libc::AF_INET6))
            && table::conn(fd).is_none()
            && !is_under_seccomp()
            && table::is_tcp(fd)
        {
            ops::opened(fd, Role::Connector, server(address));
        }
        crate::boundary::set_errno(error);
        result
    }

    fn accept(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        before_kernel_wait();
        let new = created(real(fd, address, len));
        if new >= 0 {
            record_accepted(new, fd);
        }
        new
    }

    fn accept4(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t, how: c_int) -> c_int {
        before_kernel_wait();
        let new = created(real(fd, address, len, how));
        if new >= 0 {
            record_accepted(new, fd);
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
            if !options::leaves_fresh(level, name) {
                table::note_option_of_tcp(fd);
            }
            return real(fd, level, name, value, len);
        };
        if needs_kernel(level, name) {
            fallback::now(fd, at, Cause::Ulp);
        }
        // A VI supports only the default SO_RCVLOWAT of 1. With a larger value the kernel must decide when the
        // socket is readable, so the connection moves to TCP.
        if level == libc::SOL_SOCKET
            && name == libc::SO_RCVLOWAT
            && len as usize >= size_of::<c_int>()
            && take(value.cast::<c_int>()).is_ok_and(|n| n > 1)
        {
            fallback::now(fd, at, Cause::Call);
        }
        let kernel = || real(fd, level, name, value, len);
        let result = ops::on_own_options(fd, at, level, name, kernel);
        if result == 0 {
            if options::wants_kernel(fd, level, name)
                || is_negative_time_out(level, name, value, len)
            {
                fallback::now(fd, at, Cause::Call);
            }
            ops::note_option(fd, at, level, name);
        }
        result
    }

    fn getsockopt(real,
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t,
    ) -> c_int {
        let Some(at) = table::conn(fd) else {
            return real(fd, level, name, value, len);
        };
        if level == libc::IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE {
            // TCP_ZEROCOPY_RECEIVE receives bytes that Sovia cannot count, so the connection moves to TCP.
            fallback::now(fd, at, Cause::Call);
        }
        if level != libc::SOL_SOCKET || name != libc::SO_ERROR {
            let kernel = || real(fd, level, name, value, len);
            let result = ops::on_own_options(fd, at, level, name, kernel);
            if (level, name, result) == (libc::IPPROTO_TCP, libc::TCP_INFO, 0) {
                add_activity(at, value.cast(), len);
            }
            return result;
        }
        // If the length cannot be read or is negative, the kernel refuses the call and keeps the pending error.
        let Some(room) = take(len).ok().filter(|&room| room as c_int >= 0) else {
            return real(fd, level, name, value, len);
        };
        let Some(error) = ops::socket_error(fd, at) else {
            return real(fd, level, name, value, len);
        };
        let bytes = error.to_ne_bytes();
        let n = bytes.len().min(room as usize);
        let result = access::copy(value.cast(), bytes.as_ptr(), n)
            .map_err(|BadAddress| libc::EFAULT)
            .and_then(|()| give(len, n as socklen_t));
        match result {
            Ok(()) => 0,
            Err(e) => finish(Err(e)) as c_int,
        }
    }
}

/// Corrects the times since the last send and the last receive in a TCP_INFO that the kernel has filled in. The
/// kernel does not know of traffic on the VI.
///
/// # Safety
/// The program must own the memory at `info` and `len`. The kernel has filled in `len` bytes at `info`. Other
/// threads of the program may unmap this memory during the call.
unsafe fn add_activity(at: Ref, info: *mut u8, len: *const socklen_t) {
    let [sent, received] = ops::silence(at);
    let places = [
        (offset_of!(libc::tcp_info, tcpi_last_data_sent), sent),
        (offset_of!(libc::tcp_info, tcpi_last_data_recv), received),
        // The peer's data also carries acknowledgements, so the last receive counts as the last acknowledgement.
        (offset_of!(libc::tcp_info, tcpi_last_ack_recv), received),
    ];
    // SAFETY: the program owns the memory, and every bit pattern is a valid length.
    let filled = unsafe { take(len) }.unwrap_or(0) as usize;
    for (place, silence) in places {
        let word = info.wrapping_add(place).cast::<u32>();
        if let Some(silence) = silence
            && place + size_of::<u32>() <= filled
            // SAFETY: the word lies in the program's buffer, and every bit pattern is a valid `u32`.
            && let Ok(kernels) = unsafe { take(word) }
            && silence < kernels
        {
            // SAFETY: the word lies in the program's buffer, and a `u32` has no padding.
            let _ = unsafe { give(word, silence) };
        }
    }
}

/// Option of getsockopt that receives bytes by mapping pages into the program's memory.
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

#[cfg(test)]
mod tests;
