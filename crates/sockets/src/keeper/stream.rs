//! One of the streams whose rests a keeper has.

use super::PIECE;
use super::shared::Shared;
use crate::conn::{Conn, Kept};
use crate::members;
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sys::call;
use sovia_sys::poll::{self, PollFd};

const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Why nothing more can be put on TCP now.
enum Out {
    /// The program has written nothing more so far.
    Waits,
    /// TCP has no room.
    Full,
    /// The program writes nothing more, or TCP takes nothing any more; whether there was something that no process has
    /// read.
    Ended { unread: bool },
}

/// A stream, as the keeper knows it.
pub(super) struct Stream<'s> {
    /// Its number among those of the keeper.
    n: usize,
    shared: &'s Shared,
    at: Ref,
    /// The connection's descriptor.
    kernel_socket: i32,
    /// The end that the rest is read from, and that where what the program writes comes out.
    sockets: Option<(Kept, Kept)>,
    /// What is not in the socket yet.
    rest: &'s [u8],
    /// The rest is in the socket, and its end.
    has_told: bool,
    /// The end that the rest is read from is here for relatives.
    is_shared: bool,
    /// The program writes nothing more.
    has_ended: bool,
    /// TCP has no room for what it has written.
    is_full: bool,
    /// Something is unread that no process of the program's will read.
    is_unread: bool,
    /// An error comes behind the rest.
    is_cut: bool,
    /// There is nothing more to do for it.
    is_over: bool,
}

impl<'s> Stream<'s> {
    pub(super) fn new(n: usize, at: Ref, kernel_socket: i32, shared: &'s Shared) -> Stream<'s> {
        Stream {
            n,
            shared,
            at,
            kernel_socket,
            sockets: None,
            rest: &[],
            has_told: false,
            is_shared: true,
            has_ended: false,
            is_full: false,
            is_unread: false,
            is_cut: false,
            is_over: false,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether it is to be looked after relatives.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared && !self.is_over
    }

    /// Its maker has moved the rest here, or not.
    pub(super) fn begin(&mut self, keeper: i32) {
        let place = self.shared.place(self.n);
        self.sockets = place.sockets(keeper);
        // The maker may have been killed, and the relatives may know of the rest here.
        let is_kept = |(end, _)| place.is_moved() || self.at.conn.rest.find() == Some(end);
        if !self.sockets.is_some_and(is_kept) {
            return self.let_go();
        }
        // SAFETY: the maker has no part in those bytes any more, and nothing else is made of them here.
        self.rest = unsafe { self.shared.bytes(self.n) }.get(place.left()).unwrap_or(&[]);
        self.is_cut = place.is_cut();
        self.has_ended = self.is_cut;
        self.go_on();
    }

    /// Closes what it has, and has nothing more to do.
    fn let_go(&mut self) {
        self.is_over = true;
        if let Some((end, source)) = self.sockets {
            if !self.is_source_closed() {
                let _ = call::close(source.fd);
            }
            if self.is_shared {
                let _ = call::close(end.fd);
            }
        }
        let _ = call::close(self.kernel_socket);
        self.shared.discard(self.n);
    }

    /// Returns true once the rest is in the socket, and the error behind it.
    fn is_source_closed(&self) -> bool {
        self.is_cut && self.has_told
    }

    /// Its sockets, for relatives.
    pub(super) fn sockets(&self) -> impl Iterator<Item = i32> {
        let sockets = self.sockets.filter(|_| !self.is_over);
        let end = sockets.filter(|_| self.is_shared).map(|(end, _)| end.fd);
        let source = sockets.filter(|_| !self.is_source_closed()).map(|(_, source)| source.fd);
        end.into_iter().chain(source)
    }

    /// What is awaited of its two descriptors.
    pub(super) fn awaited(&self) -> [PollFd; 2] {
        let entry = |fd, events| {
            let is_awaited = events != 0 && !self.is_over;
            PollFd { fd: if is_awaited { fd } else { -1 }, events, revents: 0 }
        };
        let input = if self.has_ended || self.is_full { 0 } else { libc::POLLIN };
        let room = if self.rest.is_empty() { 0 } else { libc::POLLOUT };
        let out = if self.is_full { libc::POLLOUT } else { 0 };
        let source = self.sockets.map_or(-1, |(_, source)| source.fd);
        [entry(source, input | room), entry(self.kernel_socket, out)]
    }

    /// Moves both ways what can be moved, and looks whether that is all.
    pub(super) fn go_on(&mut self) {
        let Some((end, source)) = self.sockets.filter(|_| !self.is_over) else { return };
        self.is_unread |= !feed(source.fd, &mut self.rest);
        if !self.has_ended {
            match self.put_out(source.fd) {
                Out::Waits => self.is_full = false,
                Out::Full => self.is_full = true,
                Out::Ended { unread } => self.ends(source, unread),
            }
        }
        if self.rest.is_empty() && !self.has_told {
            let _ = match self.is_cut {
                true => call::close(source.fd),
                false => call::shutdown(source.fd, libc::SHUT_WR),
            };
            self.has_told = true;
            self.shared.discard(self.n);
        }
        // An error that no call has had yet comes behind the bytes.
        let is_over = || poll::probe(end.fd, 0) & (libc::POLLHUP | libc::POLLERR) == libc::POLLHUP;
        let is_read =
            || self.has_told && call::bytes_unread(end.fd) == Ok(0) && (!self.is_cut || is_over());
        if self.is_shared && (is_read() || !self.is_held()) {
            self.at.conn.rest.withdraw(end);
            let _ = call::close(end.fd);
            self.is_shared = false;
        }
        if self.has_told && self.has_ended && !self.is_shared {
            if self.is_unread && !self.is_held() {
                // TCP would have reset the connection.
                let abort = [1i32, 0];
                let _ =
                    call::setsockopt(self.kernel_socket, libc::SOL_SOCKET, libc::SO_LINGER, &abort);
            }
            self.let_go();
        }
    }

    /// The program writes nothing more.
    fn ends(&mut self, source: Kept, unread: bool) {
        self.has_ended = true;
        self.is_unread |= unread;
        self.at.conn.outlet.withdraw(source);
        // While this process has the other end as well, that has been shut, not closed.
        if !unread && (self.is_shared || !self.is_held()) {
            let _ = call::shutdown(self.kernel_socket, libc::SHUT_WR);
        }
    }

    /// Puts on TCP what the program has written. What is not there yet lies in the socket, where relatives see it.
    fn put_out(&self, source: i32) -> Out {
        let mut piece = [0u8; PIECE];
        loop {
            let n = match call::recv(source, &mut piece, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
                Ok(0) => return Out::Ended { unread: false },
                Ok(n) => n,
                Err(call::Errno::EINTR) => continue,
                Err(call::Errno::EAGAIN) => return Out::Waits,
                Err(_) => return Out::Ended { unread: true },
            };
            match call::send(self.kernel_socket, &piece[..n], NOW) {
                Ok(sent) => {
                    // Before it is no more to be seen in the socket.
                    if self.at.conn.is_generation(self.at.generation) {
                        self.at.conn.put_out.fetch_add(sent as u64, Ordering::AcqRel);
                    }
                    let _ = call::recv(source, &mut piece[..sent], libc::MSG_DONTWAIT);
                }
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => return Out::Full,
                // The program's next write fails as one on TCP would.
                Err(_) => {
                    let _ = call::shutdown(source, libc::SHUT_RD);
                    // A program that waits for room finds the error.
                    while call::recv(source, &mut piece, libc::MSG_DONTWAIT).is_ok_and(|n| n > 0) {}
                    return Out::Ended { unread: false };
                }
            }
        }
    }

    /// Whether a process of the family may have the connection.
    fn is_held(&self) -> bool {
        let conn: &Conn = self.at.conn;
        conn.is_generation(self.at.generation)
            && members::any_lives(conn.holders.load(Ordering::Acquire))
    }
}

/// Prepares ECONNRESET behind the rest: `source` closes with a byte unread. Refuses what the program writes.
pub(super) fn will_be_cut(end: i32, source: i32) {
    let _ = call::send(end, &[0], NOW);
    let _ = call::shutdown(source, libc::SHUT_RD);
}

/// Puts as much of the rest into the socket as that takes. False if no process reads it any more.
pub(super) fn feed(source: i32, rest: &mut &[u8]) -> bool {
    while !rest.is_empty() {
        match call::send(source, &**rest, NOW) {
            Ok(n) => *rest = &rest[n..],
            Err(call::Errno::EINTR) => {}
            Err(call::Errno::EAGAIN) => return true,
            Err(_) => {
                *rest = &[];
                return false;
            }
        }
    }
    true
}
