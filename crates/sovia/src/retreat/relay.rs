//! The relay: keeps a stream alive whose peer cannot put it back on TCP.
//!
//! A grandchild of this process, so that the program's wait calls never see it, keeps the
//! connection with its VI. The program's descriptors become one end of a Unix stream socket, and
//! the relay moves bytes between the other end and the connection until both directions have ended.
//! The program then cannot ask for the connection's addresses any more: the price of losing
//! nothing.

use super::recall::Left;
use crate::conn::flag;
use crate::ops::{self, Flags};
use crate::table::{self, Ref};
use crate::{Outcome, family, pollset};
use sovia_sys::poll::PollFd;
use sovia_sys::{Fd, call};

/// Bytes moved at a time.
const PIECE: usize = 64 << 10;

/// Puts a relay in the place of every descriptor of the connection. False if none can be had.
pub(super) fn start(fd: i32, at: Ref, left: &Left) -> bool {
    let pair = call::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    let Ok((ours, theirs)) = pair else { return false };
    let nonblocking = at.conn.has(flag::NONBLOCK);
    // SAFETY: libc's fork, so that its locks and ours are whole in the child; the child only runs
    // the relay and leaves without running the program's exit handlers.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return false,
        0 => {
            drop(theirs);
            if let Some(relay) = call::in_child(|| run(fd, at, &ours, left)) {
                // It holds the connection in this child's place.
                family::pass_on(relay);
            }
            call::exit_now();
        }
        child => call::reap(child),
    }
    drop(ours);
    let mut descriptors = Vec::new();
    table::for_each_conn(|fd, other| {
        if other.same(at) {
            descriptors.push(fd);
        }
    });
    for fd in descriptors {
        let cloexec = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
        ops::close(fd);
        let _ = call::dup_onto(theirs.raw(), fd);
        let _ = call::fcntl(fd, libc::F_SETFD, cloexec);
    }
    if nonblocking {
        let _ = call::fcntl(theirs.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize);
    }
    true
}

/// The relay's life.
fn run(fd: i32, at: Ref, socket: &Fd, left: &Left) {
    sovia_sys::lock::forked();
    // Other descriptors of the program must not be kept from closing.
    ops::keep_only(&[fd, socket.raw()]);
    at.conn.set(flag::NONBLOCK);
    let mut piece = vec![0u8; PIECE];
    // What TCP holds from before the switch; a peer that died has nothing more to add to it.
    let mut tcp = left.tcp;
    while tcp > 0 {
        let n = piece.len().min(tcp as usize);
        match call::read_blocking(fd, &mut piece[..n]) {
            Ok(0) | Err(_) => break,
            Ok(n) => {
                deliver(socket, &piece[..n]);
                tcp -= n as u64;
            }
        }
    }
    let mut returned = 0;
    if left.part_returned {
        // The peer is dead, and what it had put on TCP of the returned bytes is all there.
        while let Ok(n @ 1..) = call::read_blocking(fd, &mut piece) {
            deliver(socket, &piece[..n]);
            returned += n;
        }
    }
    deliver(socket, left.unread.get(returned..).unwrap_or(&[]));
    at.conn.clear(flag::RETREATING);
    both_ways(fd, at, socket, &mut piece);
}

/// Moves bytes in both directions until both have ended.
fn both_ways(fd: i32, at: Ref, socket: &Fd, piece: &mut [u8]) {
    let (mut inbound, mut outbound) = (true, true);
    while inbound || outbound {
        let wants = |on: bool| if on { libc::POLLIN } else { 0 };
        let mut fds = [
            PollFd { fd: if inbound { fd } else { -1 }, events: wants(inbound), revents: 0 },
            PollFd {
                fd: if outbound { socket.raw() } else { -1 },
                events: wants(outbound),
                revents: 0,
            },
        ];
        if pollset::wait(&mut fds, None, None).is_err() {
            return;
        }
        if fds[0].revents != 0 {
            match receive(fd, at, piece) {
                Ok(0) => {
                    inbound = false;
                    let _ = call::shutdown(socket.raw(), libc::SHUT_WR);
                }
                Ok(n) => {
                    if !deliver(socket, &piece[..n]) {
                        return;
                    }
                }
                Err(libc::EAGAIN | libc::EINTR) => {}
                Err(_) => return,
            }
        }
        if fds[1].revents != 0 {
            match call::read_blocking(socket.raw(), piece) {
                Ok(0) => {
                    outbound = false;
                    let kernel =
                        || call::shutdown(fd, libc::SHUT_WR).map(|()| 0).map_err(crate::errno);
                    let _ = ops::shutdown(fd, at, libc::SHUT_WR, kernel);
                }
                Ok(n) => {
                    if !send_all(fd, at, &piece[..n]) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

fn receive(fd: i32, at: Ref, piece: &mut [u8]) -> Outcome {
    let kernel_piece: *mut [u8] = piece;
    let flags = Flags { dont_wait: true, ..Flags::default() };
    ops::receive(fd, at, &mut [piece], flags, || {
        // SAFETY: the closure runs instead of any other use of the same buffer, within this call.
        let piece = unsafe { &mut *kernel_piece };
        call::recv(fd, piece, libc::MSG_DONTWAIT).map_err(crate::errno)
    })
}

fn send_all(fd: i32, at: Ref, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        let kernel = || call::send(fd, bytes, libc::MSG_NOSIGNAL).map_err(crate::errno);
        match ops::send(fd, at, &[bytes], Flags { no_signal: true, ..Flags::default() }, kernel) {
            Ok(n) => bytes = &bytes[n..],
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => {
                let mut fds = [PollFd { fd, events: libc::POLLOUT, revents: 0 }];
                let _ = pollset::wait(&mut fds, None, None);
            }
            Err(_) => return false,
        }
    }
    true
}

/// Gives bytes to the program; false if it has gone.
fn deliver(socket: &Fd, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match call::send(socket.raw(), bytes, libc::MSG_NOSIGNAL) {
            Ok(n) => bytes = &bytes[n..],
            Err(call::Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
    true
}
