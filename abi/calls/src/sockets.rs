//! Connections begin, end, and are configured.

use crate::boundary::{finish, give, outcome, take};
use crate::descriptors::created;
use core::mem::offset_of;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{c_int, c_void, sa_family_t, sockaddr, sockaddr_storage, socklen_t, time_t, timeval};
use sovia_signal::access::{self, BadAddress};
use sovia_sockets::conn::Role;
use sovia_sockets::fallback::{self, Cause};
use sovia_sockets::meeting::Server;
use sovia_sockets::process::is_confined;
use sovia_sockets::table::{self, Ref};
use sovia_sockets::{ops, options};
use sovia_sys::call;

/// `socket` has returned `fd`. Returns it.
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

/// Records an accepted socket if it is TCP, as its listener is.
fn record_accepted(fd: c_int, listener: c_int) {
    if is_confined() {
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

/// The address that the program connects to.
fn server(address: *const sockaddr) -> Server {
    let family = family(address);
    // SAFETY: plain numbers in the program's memory.
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

/// Options by which the kernel is to work on the stream itself: it must have the whole of it.
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

/// Returns true for a time-out of negative seconds: calls on the socket never wait then. The kernel shows it as 0, like none.
fn is_negative_time_out(level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> bool {
    level == libc::SOL_SOCKET
        && matches!(name, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO)
        && len as usize >= size_of::<timeval>()
        // SAFETY: a plain number in the program's memory.
        && unsafe { take(value.cast::<time_t>()) }.is_ok_and(|seconds| seconds < 0)
}

/// Returns true if the kernel takes an address of that length, and can read it to its end.
fn is_an_address(address: *const sockaddr, len: socklen_t) -> bool {
    let range = size_of::<sa_family_t>()..=size_of::<sockaddr_storage>();
    let last = address.cast::<u8>().wrapping_add((len as usize).wrapping_sub(1));
    // SAFETY: a plain number in the program's memory.
    range.contains(&(len as usize)) && unsafe { take(last) }.is_ok()
}

/// An address's family, as far as it can be read.
fn family(address: *const sockaddr) -> Option<c_int> {
    // SAFETY: a plain number in the program's memory.
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
            && !is_confined()
            && table::is_tcp(fd)
        {
            ops::opened(fd, Role::Connector, server(address));
        }
        crate::boundary::set_errno(error);
        result
    }

    fn accept(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        let new = created(real(fd, address, len));
        if new >= 0 {
            record_accepted(new, fd);
        }
        new
    }

    fn accept4(real, fd: c_int, address: *mut sockaddr, len: *mut socklen_t, how: c_int) -> c_int {
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
        // Readiness from a number of bytes on is the kernel's to judge.
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
            // It takes bytes, which are not counted.
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
        // What the kernel would refuse is its to refuse, and the error is still there then.
        let Some(room) = take(len).ok().filter(|&room| room as c_int >= 0) else {
            return real(fd, level, name, value, len);
        };
        let Some(error) = ops::socket_error(fd, at) else {
            return real(fd, level, name, value, len);
        };
        let bytes = error.to_ne_bytes();
        let n = bytes.len().min(room as usize);
        let told = access::copy(value.cast(), bytes.as_ptr(), n)
            .map_err(|BadAddress| libc::EFAULT)
            .and_then(|()| give(len, n as socklen_t));
        match told {
            Ok(()) => 0,
            Err(e) => finish(Err(e)) as c_int,
        }
    }
}

/// Corrects how long ago a connection has sent and received in the kernel's answer (TCP_INFO). The kernel knows of its packets
/// alone.
///
/// # Safety
/// The kernel has filled in `len` bytes at `info`; other threads of the program may unmap them.
unsafe fn add_activity(at: Ref, info: *mut u8, len: *const socklen_t) {
    let [sent, received] = ops::silence(at);
    let places = [
        (offset_of!(libc::tcp_info, tcpi_last_data_sent), sent),
        (offset_of!(libc::tcp_info, tcpi_last_data_recv), received),
        // Received data acknowledges what was sent before.
        (offset_of!(libc::tcp_info, tcpi_last_ack_recv), received),
    ];
    // SAFETY: the program owns the length, which the kernel has just written.
    let filled = unsafe { take(len) }.unwrap_or(0) as usize;
    for (place, silence) in places {
        let word = info.wrapping_add(place).cast::<u32>();
        if let Some(silence) = silence
            && place + size_of::<u32>() <= filled
            // SAFETY: the word is within the bytes that the kernel has filled in.
            && let Ok(kernels) = unsafe { take(word) }
            && silence < kernels
        {
            // SAFETY: the word is within the bytes that the kernel has filled in.
            let _ = unsafe { give(word, silence) };
        }
    }
}

/// Receives by mapping pages; a call of getsockopt.
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

#[cfg(test)]
mod tests;
