//! Finishes a failover on TCP after the program has closed the connection.

use super::super::undelivered::Part;
use super::{RECORD, consumed, holds_shutdown, is_on, read};
use crate::conn::{Guard, flag};
use sovia_proto::failover::{self, FailoverRecord};
use sovia_sys::call;

/// Bytes that must still be sent on TCP, and the peer's bytes that must still be read, before the socket is closed.
/// If a socket is closed with unread bytes, the kernel resets the connection and discards bytes that it has not
/// sent.
#[derive(Debug)]
pub(crate) struct Rest {
    out: Vec<u8>,
    sent: usize,
    is_shut: bool,
    comes: PeerBytes,
}

/// Bytes of the peer that must be read from TCP before the close.
#[derive(Debug, Clone, Copy)]
enum PeerBytes {
    /// None: the kernel resets the connection for unread bytes, as after any close.
    Anything,
    /// The failover record, and the repeated bytes after it. The value is the position up to which this end has
    /// consumed the VI's stream.
    FailoverRecord(u32),
    /// Repeated bytes that the program already has. The value is their number.
    Had(u64),
}

/// Progress of a [`Rest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestProgress {
    /// Everything is sent and read, so the socket can be closed.
    Over,
    /// The socket must stay open, because the peer has not yet sent or received all bytes.
    Waits,
}

/// Returns the bytes to send and to read before a connection is closed during a failover; `None` if there are none.
/// Also returns `None` if the segment is corrupt, because the connection then ends with an error.
#[cold]
pub(crate) fn rest(guard: &Guard<'_>) -> Option<Rest> {
    if !is_on(guard) || guard.conn.has(flag::CORRUPT) {
        return None;
    }
    let out = if holds_shutdown(guard) { unsent(guard) } else { Vec::new() };
    let had = read(guard);
    let comes = match guard.failover.awaits {
        false => PeerBytes::Anything,
        true if had == 0 => PeerBytes::FailoverRecord(consumed(guard)),
        true => PeerBytes::Had((RECORD + u64::from(guard.failover.skip)).saturating_sub(had)),
    };
    let is_over = out.is_empty() && matches!(comes, PeerBytes::Anything | PeerBytes::Had(0));
    (!is_over).then_some(Rest { out, sent: 0, is_shut: false, comes })
}

/// Returns the bytes that this end must still put on TCP, including the failover record.
fn unsent(guard: &Guard<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut piece = [0u8; 1 << 10];
    let Ok(part) = Part::of(guard, super::list_source(guard)) else { return out };
    let mut at = u64::from(guard.drained);
    while let Ok(n @ 1..) = part.copy(guard, at, &mut piece) {
        out.extend_from_slice(&piece[..n]);
        at += n as u64;
    }
    out
}

impl Rest {
    /// Sends and reads as many bytes as possible without waiting. Shuts down the sending half once everything is
    /// sent.
    pub(crate) fn go_on(&mut self, fd: i32) -> RestProgress {
        while self.sent < self.out.len() {
            let how = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match call::send(fd, &self.out[self.sent..], how) {
                Ok(n) => self.sent += n,
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => break,
                // The connection has failed, and its unsent bytes are lost, as on TCP.
                Err(_) => return RestProgress::Over,
            }
        }
        let is_sent = self.sent == self.out.len();
        if is_sent && !self.is_shut {
            self.is_shut = true;
            let _ = call::shutdown(fd, libc::SHUT_WR);
        }
        match self.take(fd) {
            RestProgress::Over if is_sent => RestProgress::Over,
            _ => RestProgress::Waits,
        }
    }

    /// Reads and discards the peer's bytes that must be read before the close.
    fn take(&mut self, fd: i32) -> RestProgress {
        let mut scrap = [0u8; 1 << 10];
        loop {
            let (wanted, look) = match self.comes {
                PeerBytes::Anything | PeerBytes::Had(0) => return RestProgress::Over,
                PeerBytes::FailoverRecord(_) => (failover::LEN, libc::MSG_PEEK),
                PeerBytes::Had(left) => (scrap.len().min(left as usize), 0),
            };
            let got = call::recv(fd, &mut scrap[..wanted], libc::MSG_DONTWAIT | look);
            let n = match got {
                Ok(n @ 1..) => n,
                Err(call::Errno::EINTR) => continue,
                Err(call::Errno::EAGAIN) => return RestProgress::Waits,
                // This is not the end of TCP: `recv` returns 0 because the program has shut its receiving half.
                Ok(0) if !super::super::kernel_socket_has_ended(fd) => return RestProgress::Waits,
                Ok(_) | Err(_) => 0,
            };
            self.comes = match self.comes {
                // Only a part of the record has arrived. The rest will arrive, unless TCP has ended.
                PeerBytes::FailoverRecord(_) if (1..failover::LEN).contains(&n) => {
                    if super::super::kernel_socket_has_ended(fd) {
                        PeerBytes::Anything
                    } else {
                        return RestProgress::Waits;
                    }
                }
                PeerBytes::FailoverRecord(consumed) if n == failover::LEN => {
                    let record = scrap.first_chunk().and_then(|it| FailoverRecord::decode(it).ok());
                    let skip = record.and_then(|record| failover::skip(&record, consumed).ok());
                    skip.map_or(PeerBytes::Anything, |skip| {
                        PeerBytes::Had(RECORD + u64::from(skip))
                    })
                }
                PeerBytes::Had(left) if n > 0 => PeerBytes::Had(left - n as u64),
                _ => PeerBytes::Anything,
            };
        }
    }
}
