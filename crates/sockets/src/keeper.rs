//! The keeper: a small process that holds the rest of a stream for all that may read it ([`crate::rest`]).
//!
//! It puts the rest into a Unix socket, whose other end the program reads from, moves what the program writes to TCP,
//! and ends when the program has closed its end. It keeps that other end itself, for the relatives to take, until the
//! rest has been read or no relative has the connection any more.
//!
//! It is a bare copy of the process that makes it, which may be a child on its parent's memory: it makes nothing but
//! system calls, and is not one of the family.

use crate::conn::{Conn, Guard, Kept, flag};
use crate::stream::{self, Got};
use crate::table::Ref;
use crate::{members, ops, process, rest};
use core::sync::atomic::Ordering;
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, Mapping, call, process as processes};

/// Between two looks whether the rest has been read, and whether relatives still have the connection.
const LOOK_NS: u64 = 100_000_000;
/// Bytes of the program's that go to TCP at a time.
const PIECE: usize = 4 << 10;
/// Room for what TCP has of the stream as well, before the rest.
const MORE: usize = 32 << 20;

/// Moves what is unread to a keeper. False if that cannot be had: then it lies where it lay.
pub(crate) fn keep(guard: &mut Guard<'_>, fd: i32, at: Ref) -> bool {
    let conn = guard.conn;
    // What comes on TCP afterwards would be missing behind it.
    let is_last = stream::anchor_has_ended(fd) || conn.is_shut();
    // What comes next is a call's that is in the kernel still.
    let is_free = conn.rx_pins.is_empty() && !conn.has(flag::REFLECTED | flag::DAMAGED);
    if !is_last || !is_free || !members::are_told_apart(conn.holders.load(Ordering::Acquire)) {
        return false;
    }
    let Ok(unread @ 1..) = stream::unread(guard, fd) else { return false };
    // Shared with the keeper, which is there before anything is taken off the VI.
    let Ok(memory) = Mapping::for_family(unread + MORE) else { return false };
    let Some(keeper) = start(fd, at, &memory, conn.has(flag::NONBLOCK)) else { return false };
    // SAFETY: the mapping is as long, and its other user, the keeper, waits until it is told.
    let bytes = unsafe { core::slice::from_raw_parts_mut(memory.base(), unread + MORE) };
    let mut len = 0;
    while stream::unread(guard, fd).is_ok_and(|n| n > 0)
        && let Got::Bytes(n @ 1..) = stream::receive(guard, fd, &mut bytes[len..])
    {
        len += n;
    }
    // What the program has been told is there must not be missing until the keeper runs.
    let put = call::send(keeper.source.raw(), &bytes[..len], NOW).unwrap_or(0);
    conn.outlet.publish(keeper.outlet);
    conn.rest.publish(keeper.kept);
    let words = [len as u64, put as u64];
    let _ = call::write(keeper.begin.raw(), words.map(u64::to_ne_bytes).as_flattened());
    true
}

const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// A keeper that waits to be told what it keeps.
struct Waiting {
    /// The end that the rest is read from.
    kept: Kept,
    /// Where what the program writes comes out.
    outlet: Kept,
    /// The end that the rest goes into.
    source: Fd,
    /// Takes how long the rest is, and how much of it is in the socket.
    begin: Fd,
    /// The other end of that: it may be written to whether the keeper lives or not.
    _begins: Fd,
}

/// Starts a keeper; `None` if there can be none from which relatives can take the rest.
fn start(fd: i32, at: Ref, memory: &Mapping, is_nonblocking: bool) -> Option<Waiting> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let (source, end) = Fd::pair(libc::AF_UNIX, kind).ok()?;
    if is_nonblocking {
        call::fcntl(end.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).ok()?;
    }
    let inode = |socket: &Fd| call::file_id(socket.raw()).ok().map(|(_, inode)| inode);
    let (inode, source_inode) = (inode(&end)?, inode(&source)?);
    let pipe = || call::pipe().map(|ends| ends.map(Fd::keep)).ok();
    let ([begins, begin], [is_there, is_ready]) = (pipe()?, pipe()?);
    let keeper = Keeper {
        at,
        anchor: fd,
        source: source.raw(),
        end: end.raw(),
        inode,
        source_inode,
        begins: begins.raw(),
        memory: memory.base(),
    };
    // SAFETY: the copies make system calls, and end by one: `live` says so.
    match unsafe { processes::copy() } {
        Err(_) => return None,
        Ok(0) => {
            // SAFETY: likewise.
            if let Ok(0) = unsafe { processes::copy() } {
                processes::without_signals(|| keeper.live(is_ready.raw()));
            }
            call::exit_now();
        }
        Ok(child) => {
            let _ = call::reap(child);
        }
    }
    drop(is_ready);
    let mut id = [0u8; 4];
    if !hear(is_there.raw(), &mut id) {
        return None;
    }
    let kept = Kept { keeper: i32::from_ne_bytes(id), fd: end.raw(), inode };
    // One that this process may not look into no relative may: without `begin` the keeper ends.
    rest::take(kept)?;
    let outlet = keeper.outlet(kept);
    Some(Waiting { kept, outlet, source, begin, _begins: begins })
}

/// Waits for what comes out of a pipe; false if nothing will.
fn hear(pipe: i32, out: &mut [u8]) -> bool {
    loop {
        let mut fds = [PollFd { fd: pipe, events: libc::POLLIN, revents: 0 }];
        let _ = ppoll(&mut fds, None, None);
        match call::read(pipe, out) {
            Err(call::Errno::EINTR | call::Errno::EAGAIN) => {}
            heard => return heard == Ok(out.len()),
        }
    }
}

/// Why nothing more can be put on TCP now.
enum Out {
    /// The program has written nothing more so far.
    Waits,
    /// TCP has no room.
    Full,
    /// The program writes nothing more, or TCP takes nothing any more.
    Ended,
}

/// What the keeper knows.
struct Keeper {
    at: Ref,
    /// The connection's descriptor.
    anchor: i32,
    /// The end that the rest goes into, and that what the program writes comes out of.
    source: i32,
    /// The end that the rest is read from.
    end: i32,
    inode: u64,
    source_inode: u64,
    /// Tells how long the rest is.
    begins: i32,
    memory: *const u8,
}

impl Keeper {
    /// The keeper's life. It allocates nothing, takes no lock, and does not return.
    fn live(&self, is_ready: i32) {
        self.keep_only(is_ready);
        processes::be_traceable();
        let me = call::getpid();
        let _ = call::write(is_ready, &me.to_ne_bytes());
        let _ = call::close(is_ready);
        let mut words = [0u8; 16];
        if hear(self.begins, &mut words) {
            let word =
                |at: usize| words[at..at + 8].iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
            // SAFETY: the process that has made this one has put so many bytes there, and has no part in it any more.
            let rest = unsafe { core::slice::from_raw_parts(self.memory, word(0)) };
            self.move_both_ways(
                &rest[word(8)..],
                Kept { keeper: me, fd: self.end, inode: self.inode },
            );
        }
        call::exit_now();
    }

    /// Closes all descriptors but the keeper's own, and the file that tells which of the family live.
    fn keep_only(&self, is_ready: i32) {
        let locks = members::locks().unwrap_or(self.anchor);
        let mut keep = [self.anchor, self.source, self.end, self.begins, is_ready, locks];
        keep.sort_unstable();
        let mut from = 0;
        for fd in keep {
            if fd > from {
                call::close_range(from, fd - 1);
            }
            from = fd + 1;
        }
        call::close_range(from, i32::MAX);
    }

    fn move_both_ways(&self, mut rest: &[u8], kept: Kept) {
        let conn: &Conn = self.at.conn;
        // `has_ended`: the program writes nothing more; `is_full`: TCP has no room for what it has written.
        let (mut has_told, mut is_shared, mut has_ended, mut is_full) = (false, true, false, false);
        loop {
            if rest.is_empty() && !has_told {
                let _ = call::shutdown(self.source, libc::SHUT_WR);
                has_told = true;
            }
            if is_shared && (has_told && call::bytes_unread(self.end) == Ok(0) || !self.is_held()) {
                conn.rest.withdraw(kept);
                let _ = call::close(self.end);
                is_shared = false;
            }
            if has_told && has_ended && !is_shared {
                return;
            }
            let entry =
                |fd, events| PollFd { fd: if events == 0 { -1 } else { fd }, events, revents: 0 };
            let input = if has_ended || is_full { 0 } else { libc::POLLIN };
            let room = if rest.is_empty() { 0 } else { libc::POLLOUT };
            let out = if is_full { libc::POLLOUT } else { 0 };
            let mut fds = [entry(self.source, input | room), entry(self.anchor, out)];
            let _ = ppoll(&mut fds, is_shared.then_some(LOOK_NS), None);
            if !rest.is_empty() {
                match call::send(self.source, rest, NOW) {
                    Ok(n) => rest = &rest[n..],
                    Err(call::Errno::EAGAIN | call::Errno::EINTR) => {}
                    // No process reads it any more.
                    Err(_) => rest = &[],
                }
            }
            if !has_ended {
                match self.put_out() {
                    Out::Waits => is_full = false,
                    Out::Full => is_full = true,
                    Out::Ended => {
                        has_ended = true;
                        conn.outlet.withdraw(self.outlet(kept));
                        if !self.is_held() {
                            let _ = call::shutdown(self.anchor, libc::SHUT_WR);
                        }
                    }
                }
            }
        }
    }

    /// Puts on TCP what the program has written. What is not there yet lies in the socket, where relatives see it.
    fn put_out(&self) -> Out {
        let mut piece = [0u8; PIECE];
        loop {
            let n = match call::recv(self.source, &mut piece, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
                Ok(0) => return Out::Ended,
                Ok(n) => n,
                Err(call::Errno::EINTR) => continue,
                Err(call::Errno::EAGAIN) => return Out::Waits,
                Err(_) => return Out::Ended,
            };
            match call::send(self.anchor, &piece[..n], NOW) {
                Ok(sent) => {
                    let _ = call::recv(self.source, &mut piece[..sent], libc::MSG_DONTWAIT);
                    self.at.conn.put_out.fetch_add(sent as u64, Ordering::AcqRel);
                }
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => return Out::Full,
                // The program's next write fails as one on TCP would.
                Err(_) => {
                    let _ = call::shutdown(self.source, libc::SHUT_RD);
                    return Out::Ended;
                }
            }
        }
    }

    /// Where what the program has written comes out.
    fn outlet(&self, kept: Kept) -> Kept {
        Kept { fd: self.source, inode: self.source_inode, ..kept }
    }

    /// Whether a process of the family has the connection.
    fn is_held(&self) -> bool {
        let conn: &Conn = self.at.conn;
        conn.is_generation(self.at.generation)
            && members::any_holds(conn.holders.load(Ordering::Acquire))
    }
}

/// The descriptors of connections that another program is to inherit become ends that the rest is read from, where
/// those have one.
pub(crate) fn give(inherited: &[(i32, Ref)]) {
    for &(fd, at) in inherited {
        if let Ok(Some(end)) = rest::end_of(at.conn) {
            let how = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
            if !process::is_borrowed() {
                ops::close(fd);
            }
            let _ = call::dup_onto(end.raw(), fd);
            let _ = call::fcntl(fd, libc::F_SETFD, how);
        }
    }
}
