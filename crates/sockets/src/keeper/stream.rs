//! A stream whose remaining bytes a keeper holds.

use super::PIECE;
use super::shared::Shared;
use crate::conn::{Conn, Kept};
use crate::members;
use crate::table::Ref;
use core::sync::atomic::Ordering;
use sovia_sys::call;
use sovia_sys::poll::{self, PollFd};

const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Reason why the keeper can put no more of the program's bytes on TCP now.
enum Out {
    /// The program has written no more bytes so far.
    Waits,
    /// TCP has no room.
    Full,
    /// The program will write no more bytes, or TCP accepts no more bytes. `unread` is true if the program has
    /// closed its end and left bytes unread.
    Ended { unread: bool },
}

/// A stream and its state in the keeper.
pub(super) struct Stream<'s> {
    /// Index of the stream in the keeper.
    n: usize,
    shared: &'s Shared,
    at: Ref,
    /// Descriptor of the connection.
    kernel_socket: i32,
    /// The end of the Unix socket from which the remaining bytes are read, and the end where the program's bytes
    /// come out.
    sockets: Option<(Kept, Kept)>,
    /// Remaining bytes that the keeper has not put into the Unix socket yet.
    rest: &'s [u8],
    /// Set once the Unix socket has all remaining bytes, and behind them the end of the stream or an error.
    has_told: bool,
    /// Set while the keeper holds the end from which the remaining bytes are read, for relatives.
    is_shared: bool,
    /// Set once the program will write no more bytes.
    has_ended: bool,
    /// Set while TCP has no room for the program's bytes.
    is_full: bool,
    /// Set if there are unread bytes that no process of the program will read.
    is_unread: bool,
    /// Set if an error follows the remaining bytes.
    is_cut: bool,
    /// Set once the keeper has finished with the stream.
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

    /// Returns true while the keeper must check if relatives still have the connection.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared && !self.is_over
    }

    /// Starts to serve the stream, if the keeper's maker has moved the stream's bytes.
    pub(super) fn begin(&mut self, keeper: i32) {
        let place = self.shared.place(self.n);
        self.sockets = place.sockets(keeper);
        // The maker may have been killed after it had published the bytes in `conn.rest`, and before it had set
        // `is_moved`.
        let is_kept = |(end, _)| place.is_moved() || self.at.conn.rest.find() == Some(end);
        if !self.sockets.is_some_and(is_kept) {
            return self.let_go();
        }
        // SAFETY: the maker has published the bytes, so the maker no longer uses them. The keeper calls this
        // function once for a stream, so there is no other reference to the bytes.
        self.rest = unsafe { self.shared.bytes(self.n) }.get(place.left()).unwrap_or(&[]);
        self.is_cut = place.is_cut();
        self.has_ended = self.is_cut;
        self.go_on();
    }

    /// Closes the stream's descriptors and frees its memory.
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

    /// Returns true once `source` is closed: the Unix socket has all remaining bytes, and an error behind them.
    fn is_source_closed(&self) -> bool {
        self.is_cut && self.has_told
    }

    /// Returns the descriptors of the stream's open sockets, for relatives that request them.
    pub(super) fn sockets(&self) -> impl Iterator<Item = i32> {
        let sockets = self.sockets.filter(|_| !self.is_over);
        let end = sockets.filter(|_| self.is_shared).map(|(end, _)| end.fd);
        let source = sockets.filter(|_| !self.is_source_closed()).map(|(_, source)| source.fd);
        end.into_iter().chain(source)
    }

    /// Returns the events that the keeper waits for on the stream's two descriptors.
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

    /// Moves bytes in both directions as far as possible. Finishes the stream if there is no more work.
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
        // In a cut stream, an error follows the bytes. `POLLERR` is reported until a call has received this error.
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
                // Make the close of the kernel socket reset the connection, as TCP does if bytes were left unread.
                let abort = [1i32, 0];
                let _ =
                    call::setsockopt(self.kernel_socket, libc::SOL_SOCKET, libc::SO_LINGER, &abort);
            }
            self.let_go();
        }
    }

    /// Records that the program will write no more bytes.
    fn ends(&mut self, source: Kept, unread: bool) {
        self.has_ended = true;
        self.is_unread |= unread;
        self.at.conn.outlet.withdraw(source);
        // Shut down TCP as well, unless a relative may still send. If the keeper still holds the program's end, the
        // program has shut down that end for all processes. If not, the program may only have closed it.
        if !unread && (self.is_shared || !self.is_held()) {
            let _ = call::shutdown(self.kernel_socket, libc::SHUT_WR);
        }
    }

    /// Puts on TCP what the program has written. Bytes that are not on TCP yet stay in the socket, where relatives
    /// can count them.
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
                    // Count the bytes before they leave the socket, so that a relative that waits for them never
                    // waits too short.
                    if self.at.conn.is_generation(self.at.generation) {
                        self.at.conn.put_out.fetch_add(sent as u64, Ordering::AcqRel);
                    }
                    let _ = call::recv(source, &mut piece[..sent], libc::MSG_DONTWAIT);
                }
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => return Out::Full,
                // Make the program's next write fail, as a write to TCP would fail.
                Err(_) => {
                    let _ = call::shutdown(source, libc::SHUT_RD);
                    // Empty the socket, so that a program that waits for room finds the error.
                    while call::recv(source, &mut piece, libc::MSG_DONTWAIT).is_ok_and(|n| n > 0) {}
                    return Out::Ended { unread: false };
                }
            }
        }
    }

    /// Returns true if a process of the family may hold the connection.
    fn is_held(&self) -> bool {
        let conn: &Conn = self.at.conn;
        conn.is_generation(self.at.generation)
            && members::any_lives(conn.holders.load(Ordering::Acquire))
    }
}

/// Prepares an error behind the remaining bytes: the keeper will close `source` with an unread byte, and then the
/// program gets ECONNRESET. From now on, the program's writes fail.
pub(super) fn will_be_cut(end: i32, source: i32) {
    let _ = call::send(end, &[0], NOW);
    let _ = call::shutdown(source, libc::SHUT_RD);
}

/// Puts as many of the remaining bytes into the socket as fit, and removes them from `rest`. Returns false if no
/// process reads the socket any more.
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
