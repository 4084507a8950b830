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
use crate::{family, members, ops, process, rest};
use core::sync::atomic::{AtomicU64, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, Mapping, call, process as processes};

/// Between two looks whether the rest has been read, and whether relatives still have the connection.
const LOOK_NS: u64 = 100_000_000;
/// Bytes of the program's that go to TCP at a time.
const PIECE: usize = 4 << 10;
/// Before the bytes in the memory that is shared with the keeper: how many there are, 0 until they are the keeper's.
const HEADER: usize = 64;

fn len_of(memory: *mut u8) -> &'static AtomicU64 {
    // SAFETY: the memory is aligned to a page and begins with that word. It is mapped for as long as this process, or the
    // keeper, uses it.
    unsafe { &*memory.cast() }
}

/// Moves what is unread to a keeper. False if that cannot be had: then it lies where it lay.
pub(crate) fn keep(guard: &mut Guard<'_>, fd: i32, at: Ref) -> bool {
    let conn = guard.conn;
    // What comes on TCP afterwards would be missing behind it.
    let is_last = stream::anchor_has_ended(fd) || conn.is_shut();
    // What comes next is a call's that is in the kernel still.
    let is_free = conn.rx_pins.is_empty() && !conn.has(flag::REFLECTED | flag::DAMAGED);
    // Those of another PID namespace do not know the keeper by its id; and it would end with this one's first process.
    let is_known =
        family::namespace().is_some_and(|family| Some(family) == processes::pid_namespace());
    let are_told_apart = members::are_told_apart(conn.holders.load(Ordering::Acquire));
    if !is_last || !is_free || !is_known || !are_told_apart {
        return false;
    }
    let Ok(unread @ 1..) = stream::unread(guard, fd) else { return false };
    // Shared with the keeper: how much is to be kept, and then the bytes.
    let Ok(memory) = Mapping::for_family(HEADER + unread) else { return false };
    // SAFETY: the mapping is as long, and its other user, the keeper, reads the bytes once it finds how many there are.
    let bytes = unsafe { core::slice::from_raw_parts_mut(memory.base().add(HEADER), unread) };
    // They are only looked at. Until the keeper is known they lie where they lay, whatever becomes of this process.
    if stream::peek(guard, fd, bytes) != Got::Bytes(unread) {
        return false;
    }
    let Some(keeper) = start(fd, at, &memory, conn.has(flag::NONBLOCK)) else { return false };
    len_of(memory.base()).store(unread as u64, Ordering::Release);
    conn.outlet.publish(keeper.outlet);
    conn.rest.publish(keeper.kept);
    let (mut piece, mut left) = ([0; PIECE], unread);
    while left > 0
        && let Got::Bytes(n @ 1..) = stream::receive(guard, fd, &mut piece[..left.min(PIECE)])
    {
        left -= n;
    }
    // What the program has been told is there must not be missing when it begins.
    let _ = call::write(keeper.begin.raw(), &[0]);
    let _ = hear(keeper.has_begun.raw(), &mut [0]);
    true
}

const NOW: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// A keeper that waits to be told what it keeps.
struct Waiting {
    /// The end that the rest is read from.
    kept: Kept,
    /// Where what the program writes comes out.
    outlet: Kept,
    /// Takes a byte when the keeper is to begin.
    begin: Fd,
    /// Tells that as much of the rest is in the socket as it takes.
    has_begun: Fd,
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
    let ([begins, begin], [told, tells]) = (pipe()?, pipe()?);
    // As much as the system lets it take: what it does not take at once has to wait for the keeper.
    let _ = call::setsockopt(source.raw(), libc::SOL_SOCKET, libc::SO_SNDBUF, &(64 << 20));
    let keeper = Keeper {
        at,
        anchor: fd,
        source: source.raw(),
        end: end.raw(),
        inode,
        source_inode,
        begins: begins.raw(),
        begin: begin.raw(),
        tells: tells.raw(),
        memory: memory.base(),
    };
    // SAFETY: the copies make system calls, and end by one: `live` says so.
    match unsafe { processes::copy() } {
        Err(_) => return None,
        Ok(0) => {
            // SAFETY: likewise.
            if let Ok(0) = unsafe { processes::copy() } {
                processes::without_signals(|| keeper.live());
            }
            call::exit_now();
        }
        Ok(child) => {
            let _ = call::reap(child);
        }
    }
    drop(tells);
    let mut id = [0u8; 4];
    if !hear(told.raw(), &mut id) {
        return None;
    }
    let kept = Kept { keeper: i32::from_ne_bytes(id), fd: end.raw(), inode };
    // One that this process may not look into no relative may: without `begin` the keeper ends.
    rest::take(kept).ok()?;
    let outlet = keeper.outlet(kept);
    Some(Waiting { kept, outlet, begin, has_begun: told, _begins: begins })
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
    /// The program writes nothing more, or TCP takes nothing any more; whether there was something that no process has
    /// read.
    Ended { unread: bool },
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
    /// Tells to begin; the other end of it, which this process closes; and what it is told by.
    begins: i32,
    begin: i32,
    tells: i32,
    memory: *mut u8,
}

impl Keeper {
    /// The keeper's life. It allocates nothing, takes no lock, and does not return.
    fn live(&self) {
        let _ = call::close(self.begin);
        self.keep_only();
        processes::leave_group();
        processes::be_traceable();
        let me = call::getpid();
        let _ = call::write(self.tells, &me.to_ne_bytes());
        let kept = Kept { keeper: me, fd: self.end, inode: self.inode };
        let is_told = hear(self.begins, &mut [0]);
        let len = len_of(self.memory).load(Ordering::Acquire) as usize;
        // The process that made it may have been killed, and the relatives may know of the rest here.
        if len > 0 && (is_told || self.at.conn.rest.find() == Some(kept)) {
            // SAFETY: that process has put so many bytes there, and has no part in them any more.
            let rest = unsafe { core::slice::from_raw_parts(self.memory.add(HEADER), len) };
            self.move_both_ways(rest, kept);
        }
        call::exit_now();
    }

    /// Closes all descriptors but the keeper's own, and the file that tells which of the family live.
    fn keep_only(&self) {
        let locks = members::locks().unwrap_or(self.anchor);
        let mut keep = [self.anchor, self.source, self.end, self.begins, self.tells, locks];
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
        let mut is_unread = !self.feed(&mut rest);
        let _ = call::write(self.tells, &[0]);
        let _ = call::close(self.tells);
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
                if is_unread && !self.is_held() {
                    // TCP would have reset the connection.
                    let abort = [1i32, 0];
                    let _ =
                        call::setsockopt(self.anchor, libc::SOL_SOCKET, libc::SO_LINGER, &abort);
                }
                return;
            }
            let entry =
                |fd, events| PollFd { fd: if events == 0 { -1 } else { fd }, events, revents: 0 };
            let input = if has_ended || is_full { 0 } else { libc::POLLIN };
            let room = if rest.is_empty() { 0 } else { libc::POLLOUT };
            let out = if is_full { libc::POLLOUT } else { 0 };
            let mut fds = [entry(self.source, input | room), entry(self.anchor, out)];
            let _ = ppoll(&mut fds, is_shared.then_some(LOOK_NS), None);
            is_unread |= !self.feed(&mut rest);
            if !has_ended {
                match self.put_out() {
                    Out::Waits => is_full = false,
                    Out::Full => is_full = true,
                    Out::Ended { unread } => {
                        (has_ended, is_unread) = (true, is_unread || unread);
                        conn.outlet.withdraw(self.outlet(kept));
                        // While this process has the other end as well, that has been shut, not closed.
                        if !unread && (is_shared || !self.is_held()) {
                            let _ = call::shutdown(self.anchor, libc::SHUT_WR);
                        }
                    }
                }
            }
        }
    }

    /// Puts as much of the rest into the socket as that takes. False if no process reads it any more.
    fn feed(&self, rest: &mut &[u8]) -> bool {
        while !rest.is_empty() {
            match call::send(self.source, rest, NOW) {
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

    /// Puts on TCP what the program has written. What is not there yet lies in the socket, where relatives see it.
    fn put_out(&self) -> Out {
        let mut piece = [0u8; PIECE];
        loop {
            let n = match call::recv(self.source, &mut piece, libc::MSG_DONTWAIT | libc::MSG_PEEK) {
                Ok(0) => return Out::Ended { unread: false },
                Ok(n) => n,
                Err(call::Errno::EINTR) => continue,
                Err(call::Errno::EAGAIN) => return Out::Waits,
                Err(_) => return Out::Ended { unread: true },
            };
            match call::send(self.anchor, &piece[..n], NOW) {
                Ok(sent) => {
                    // Before it is no more to be seen in the socket.
                    if self.at.conn.is_generation(self.at.generation) {
                        self.at.conn.put_out.fetch_add(sent as u64, Ordering::AcqRel);
                    }
                    let _ = call::recv(self.source, &mut piece[..sent], libc::MSG_DONTWAIT);
                }
                Err(call::Errno::EINTR) => {}
                Err(call::Errno::EAGAIN) => return Out::Full,
                // The program's next write fails as one on TCP would.
                Err(_) => {
                    let _ = call::shutdown(self.source, libc::SHUT_RD);
                    return Out::Ended { unread: false };
                }
            }
        }
    }

    /// Where what the program has written comes out.
    fn outlet(&self, kept: Kept) -> Kept {
        Kept { fd: self.source, inode: self.source_inode, ..kept }
    }

    /// Whether a process of the family may have the connection.
    fn is_held(&self) -> bool {
        let conn: &Conn = self.at.conn;
        conn.is_generation(self.at.generation)
            && members::any_lives(conn.holders.load(Ordering::Acquire))
    }
}

/// Those descriptors become ends that the rest is read from, where a keeper has one. Where one has put all of it out, and
/// puts on TCP still what a program has written, what comes next is to come after that.
pub(crate) fn give(descriptors: &[(i32, Ref)]) {
    for &(fd, at) in descriptors {
        match rest::end_of(at.conn) {
            Ok(Some(end)) => {
                let how = call::fcntl(fd, libc::F_GETFD, 0).unwrap_or(0);
                // In this order: until the table says otherwise, calls ask the keeper.
                let _ = call::dup_onto(end.raw(), fd);
                let _ = call::fcntl(fd, libc::F_SETFD, how);
                if !process::is_borrowed() {
                    ops::close(fd);
                }
            }
            Ok(None) | Err(_) => {
                let _ = rest::come_after(at.conn, fd, false);
            }
        }
    }
}
