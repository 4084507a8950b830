//! What is still to be done on TCP for a connection that its program has closed on the way there.

use super::super::undelivered::Part;
use super::{RECORD, consumed, holds_shutdown, is_on, read};
use crate::conn::{Guard, flag};
use sovia_proto::failover::{self, Record};
use sovia_sys::call;

/// Bytes that wait for room on TCP, and bytes of the peer's that must be read: the kernel would reset a connection that is
/// closed with any unread, and throw away what it has been given.
#[derive(Debug)]
pub(crate) struct Rest {
    out: Vec<u8>,
    sent: usize,
    is_shut: bool,
    comes: Comes,
}

/// What comes of the peer's.
#[derive(Debug, Clone, Copy)]
enum Comes {
    /// What TCP itself would answer.
    Anything,
    /// A record, to an end that has consumed so much.
    Record(u32),
    /// So many bytes that the program has had.
    Had(u64),
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// There is nothing more to do.
    Over,
    /// The peer has its part to do.
    Waits,
}

/// What is left to be done for a connection that is about to be closed, if there is anything. A connection whose segment
/// holds nonsense is over: its peer finds something missing.
#[cold]
pub(crate) fn rest(guard: &Guard<'_>) -> Option<Rest> {
    if !is_on(guard) || guard.conn.has(flag::CORRUPT) {
        return None;
    }
    let out = if holds_shutdown(guard) { unsent(guard) } else { Vec::new() };
    let had = read(guard);
    let comes = match guard.failover.awaits {
        false => Comes::Anything,
        true if had == 0 => Comes::Record(consumed(guard)),
        true => Comes::Had((RECORD + u64::from(guard.failover.skip)).saturating_sub(had)),
    };
    let is_over = out.is_empty() && matches!(comes, Comes::Anything | Comes::Had(0));
    (!is_over).then_some(Rest { out, sent: 0, is_shut: false, comes })
}

/// What is owed to TCP, with the record.
fn unsent(guard: &Guard<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut piece = [0u8; 1 << 10];
    let Ok(part) = Part::of(guard, super::said(guard)) else { return out };
    let mut at = u64::from(guard.drained);
    while let Ok(n @ 1..) = part.copy(guard, at, &mut piece) {
        out.extend_from_slice(&piece[..n]);
        at += n as u64;
    }
    out
}

impl Rest {
    /// Does what can be done now.
    pub(crate) fn go_on(&mut self, fd: i32) -> Went {
        while self.sent < self.out.len() {
            let how = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            match call::send(fd, &self.out[self.sent..], how) {
                Ok(n) => self.sent += n,
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => break,
                // The connection is gone, and its bytes with it, as with TCP.
                Err(_) => return Went::Over,
            }
        }
        let is_sent = self.sent == self.out.len();
        if is_sent && !self.is_shut {
            self.is_shut = true;
            let _ = call::shutdown(fd, libc::SHUT_WR);
        }
        match self.take(fd) {
            Went::Over if is_sent => Went::Over,
            _ => Went::Waits,
        }
    }

    /// Takes off TCP what must be read.
    fn take(&mut self, fd: i32) -> Went {
        let mut scrap = [0u8; 1 << 10];
        loop {
            let (wanted, look) = match self.comes {
                Comes::Anything | Comes::Had(0) => return Went::Over,
                Comes::Record(_) => (failover::LEN, libc::MSG_PEEK),
                Comes::Had(left) => (scrap.len().min(left as usize), 0),
            };
            let got = call::recv(fd, &mut scrap[..wanted], libc::MSG_DONTWAIT | look);
            let n = match got {
                Ok(n @ 1..) => n,
                Err(call::Errno::EINTR) => continue,
                Err(call::Errno::EAGAIN) => return Went::Waits,
                // The program had shut its receiving half.
                Ok(0) if !super::super::kernel_socket_has_ended(fd) => return Went::Waits,
                Ok(_) | Err(_) => 0,
            };
            self.comes = match self.comes {
                // The rest of it comes, or the end.
                Comes::Record(_) if (1..failover::LEN).contains(&n) => {
                    if super::super::kernel_socket_has_ended(fd) {
                        Comes::Anything
                    } else {
                        return Went::Waits;
                    }
                }
                Comes::Record(consumed) if n == failover::LEN => {
                    let record = scrap.first_chunk().and_then(|it| Record::decode(it).ok());
                    let skip = record.and_then(|record| failover::skip(&record, consumed).ok());
                    skip.map_or(Comes::Anything, |skip| Comes::Had(RECORD + u64::from(skip)))
                }
                Comes::Had(left) if n > 0 => Comes::Had(left - n as u64),
                _ => Comes::Anything,
            };
        }
    }
}
