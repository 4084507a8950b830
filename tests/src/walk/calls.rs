//! Single calls of a walk, and the text of their results.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

/// Ends this process, and so any call of its threads. The controller sees that the pipe is closed.
pub(super) fn must(what: &str, result: i32) -> i32 {
    assert!(result >= 0, "{what}: {}", io::Error::last_os_error());
    result
}

/// Returns the result, or the name of the error.
pub(super) fn said(result: isize) -> String {
    if result >= 0 {
        result.to_string()
    } else {
        error_name(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

pub(super) fn error_name(error: i32) -> String {
    match error {
        0 => "no error".into(),
        libc::EAGAIN => "EAGAIN".into(),
        libc::EBADF => "EBADF".into(),
        libc::ECONNRESET => "ECONNRESET".into(),
        libc::EINTR => "EINTR".into(),
        libc::ENOTCONN => "ENOTCONN".into(),
        libc::EPIPE => "EPIPE".into(),
        other => format!("error {other}"),
    }
}

/// Returns the bytes that a step sends.
fn bytes_of(size: usize, step: usize) -> Vec<u8> {
    (0..size).map(|at| (step * 37 + at * (1 + (step & 3)) + (at >> 8)) as u8).collect()
}

pub(super) fn write(stream: i32, size: usize, step: usize) -> String {
    let bytes = bytes_of(size, step);
    // SAFETY: the buffer has that length.
    said(unsafe {
        libc::send(stream, bytes.as_ptr().cast(), size, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })
}

/// Shows the result of a receive, and the bytes that it put into the buffer.
fn seen(received: isize, bytes: &[u8]) -> String {
    match received {
        n @ 1.. => format!("{n} bytes {:x}", checksum(&bytes[..n as usize])),
        n => said(n),
    }
}

pub(super) fn receive(stream: i32, size: usize, flags: i32) -> String {
    let mut bytes = vec![0u8; size];
    // SAFETY: the buffer has that length.
    let received = unsafe { libc::recv(stream, bytes.as_mut_ptr().cast(), size, flags) };
    seen(received, &bytes)
}

/// Discards bytes with MSG_TRUNC and without a buffer.
pub(super) fn discard(stream: i32, size: usize) -> String {
    // SAFETY: a stream's bytes go nowhere with MSG_TRUNC.
    said(unsafe { libc::recv(stream, ptr::null_mut(), size, libc::MSG_DONTWAIT | libc::MSG_TRUNC) })
}

/// Splits a buffer into a third, nothing, and the rest.
fn three(bytes: &mut [u8]) -> [libc::iovec; 3] {
    let (first, rest) = bytes.split_at_mut(bytes.len() / 3);
    let part =
        |part: &mut [u8]| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
    [part(first), part(&mut []), part(rest)]
}

/// Makes a message of these buffers, without an address and control messages.
pub(super) fn message(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: zeros are a message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
    message
}

/// Sends three buffers.
pub(super) fn gather(stream: i32, size: usize, step: usize) -> String {
    let mut bytes = bytes_of(size, step);
    let mut parts = three(&mut bytes);
    let message = message(&mut parts);
    // SAFETY: the message's buffers outlive the call.
    said(unsafe { libc::sendmsg(stream, &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) })
}

/// Receives into three buffers.
pub(super) fn scatter(stream: i32, size: usize) -> String {
    let mut bytes = vec![0u8; size];
    let mut parts = three(&mut bytes);
    let mut message = message(&mut parts);
    // SAFETY: as in `gather`.
    let received = unsafe { libc::recvmsg(stream, &mut message, libc::MSG_DONTWAIT) };
    seen(received, &bytes)
}

fn splice(from: i32, to: i32, size: usize) -> isize {
    let none = ptr::null_mut();
    // SAFETY: no offsets are given.
    unsafe { libc::splice(from, none, to, none, size, libc::SPLICE_F_NONBLOCK) }
}

/// Moves bytes from the stream to a pipe, and prints how many the pipe holds. Call it only if there are bytes,
/// because the call waits.
pub(super) fn splice_in(stream: i32, size: usize) -> String {
    if poll(stream, libc::POLLIN, 0) == "none" {
        return "none".into();
    }
    let (mut reading, writing) = io::pipe().expect("a pipe");
    let moved = splice(stream, writing.as_raw_fd(), size);
    if moved <= 0 {
        return said(moved);
    }
    let mut bytes = vec![0u8; moved as usize];
    reading.read_exact(&mut bytes).expect("the bytes");
    seen(moved, &bytes)
}

/// Puts bytes into a pipe, and moves them to the stream.
pub(super) fn splice_out(stream: i32, size: usize, step: usize) -> String {
    let (reading, mut writing) = io::pipe().expect("a pipe");
    writing.write_all(&bytes_of(size, step)).expect("room");
    said(splice(reading.as_raw_fd(), stream, size))
}

/// Sends until there is no room. The number of bytes differs from stack to stack.
pub(super) fn fill(stream: i32) -> String {
    loop {
        let sent = write(stream, 9000, 0);
        if sent.parse::<usize>().is_err() {
            return sent;
        }
    }
}

/// Receives until no more bytes arrive.
pub(super) fn drain(stream: i32) -> String {
    loop {
        poll(stream, libc::POLLIN, 15);
        let received = receive(stream, 300_000, libc::MSG_DONTWAIT);
        if !received.contains("bytes") {
            return received;
        }
    }
}

pub(super) fn poll(stream: i32, events: i16, milliseconds: i32) -> String {
    let mut one = libc::pollfd { fd: stream, events, revents: 0 };
    // SAFETY: `one` is one entry, and the call gets the count 1.
    unsafe { libc::poll(&mut one, 1, milliseconds) };
    names(one.revents)
}

pub(super) fn names(events: libc::c_short) -> String {
    const NAMES: [(libc::c_short, &str); 7] = [
        (libc::POLLIN, "IN"),
        (libc::POLLPRI, "PRI"),
        (libc::POLLOUT, "OUT"),
        (libc::POLLERR, "ERR"),
        (libc::POLLHUP, "HUP"),
        (libc::POLLNVAL, "NVAL"),
        (libc::POLLRDHUP, "RDHUP"),
    ];
    let mut text = String::new();
    for (bit, name) in NAMES {
        if events & bit != 0 {
            let _ = write!(text, "{}{name}", if text.is_empty() { "" } else { "|" });
        }
    }
    if text.is_empty() { "none".into() } else { text }
}

pub(super) fn option(stream: i32, name: i32, say: fn(i32) -> String) -> String {
    let mut value = 0i32;
    let mut size = 4;
    // SAFETY: `size` is the length of `value`.
    let result = unsafe {
        libc::getsockopt(
            stream,
            libc::SOL_SOCKET,
            name,
            ptr::from_mut(&mut value).cast(),
            &mut size,
        )
    };
    if result < 0 { said(-1) } else { say(value) }
}

pub(super) fn set_option<T>(stream: i32, level: i32, name: i32, value: &T) -> String {
    let size = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: `size` is the length of `value`.
    said(unsafe { libc::setsockopt(stream, level, name, ptr::from_ref(value).cast(), size) }
        as isize)
}

pub(super) fn unread(stream: i32) -> String {
    let mut bytes = 0i32;
    // SAFETY: the call writes one number.
    let result = unsafe { libc::ioctl(stream, libc::FIONREAD, &mut bytes) };
    said(if result < 0 { -1 } else { bytes as isize })
}

/// FNV-1a.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619))
}
