//! Requests to a keeper for its sockets, from processes that may not take these sockets by `pidfd_getfd`. The
//! seccomp filters of systemd's @system-service and of container engines do not allow this call.
//!
//! The keeper listens at a name made of its process id. The keeper sends its sockets to each process of its user
//! that connects, and closes the connection. So the keeper need not keep state for a process that is stopped. Both
//! ends check the kernel's information about the other end, because any process can bind a name.

use crate::conn::Kept;
use crate::errno;
use crate::rest::{Refused, is_it};
use sovia_sys::datagram::{FDS_MAX, Name};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Fd, call, process};

/// Maximum number of streams of a keeper that answers requests. All sockets of such a keeper must fit into one
/// message.
pub(crate) const STREAMS: usize = FDS_MAX / 2;

/// Nanoseconds between two attempts to connect to a keeper at which too many processes wait.
const PAUSE_NS: u64 = 1_000_000;

/// Returns the name of the keeper with this process id. Does not allocate, because keepers call this function.
fn name_of(keeper: i32) -> Option<Name> {
    let mut name = *b"sovia-keeper-00000000";
    let digits = name.iter_mut().rev().take(8);
    digits
        .enumerate()
        .for_each(|(n, digit)| *digit = b"0123456789abcdef"[keeper as usize >> (4 * n) & 15]);
    Name::new(&name)
}

/// Makes a keeper listen at its name. Returns `None` if this is impossible.
pub(crate) fn listen(keeper: i32) -> Option<Listener> {
    Listener::bind(&name_of(keeper)?).ok()
}

/// Sends the keeper's sockets to all processes that have connected.
pub(crate) fn answer(listener: &Listener, sockets: &[i32]) {
    while let Ok(asking) = listener.accept() {
        if asking.peer().is_ok_and(|(_, user)| user == call::geteuid()) {
            let _ = asking.send(&[0], &sockets[..sockets.len().min(FDS_MAX)]);
        }
    }
}

/// Requests the socket `kept` from its keeper, which sends a copy of the socket.
pub(super) fn ask(kept: Kept) -> Result<Fd, Refused> {
    let refused = |error: call::Errno| Refused::Refused(errno(error));
    let life = process::open(kept.keeper).map_err(|_| Refused::Gone)?;
    let name = name_of(kept.keeper).ok_or(Refused::Gone)?;
    let asking = loop {
        match Packets::connect(&name) {
            Ok(asking) => break asking,
            Err(call::Errno::EAGAIN) => drop(ppoll(&mut [], Some(PAUSE_NS), None)),
            Err(call::Errno::ECONNREFUSED) if has_ended(&life) => return Err(Refused::Gone),
            Err(call::Errno::ECONNREFUSED) => return Err(Refused::Refused(libc::EPERM)),
            Err(error) => return Err(refused(error)),
        }
    };
    if asking.peer() != Ok((kept.keeper, call::geteuid())) {
        return Err(Refused::Refused(libc::EPERM));
    }
    let mut fds = [PollFd { fd: asking.raw(), events: libc::POLLIN, revents: 0 }];
    // Wait for the answer. The wait also ends when the keeper ends, because the connection then hangs up.
    while ppoll(&mut fds, None, None) == Err(call::Errno::EINTR) {}
    let mut message = [0; 1];
    let received = asking.receive(&mut message).map_err(|_| Refused::Gone)?;
    let it = received.fds.into_iter().find(|socket| is_it(socket.raw(), kept.inode));
    let mut it = it.ok_or(Refused::Gone)?;
    it.vouch();
    Ok(it)
}

fn has_ended(life: &Fd) -> bool {
    sovia_sys::poll::probe(life.raw(), libc::POLLIN) != 0
}
