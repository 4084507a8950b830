//! Eventfds that report a VI's readiness, for event loops that know only kernel descriptors.
//!
//! Events of a VI are in memory, so no kernel descriptor reports them. A stream that joins a foreign event loop
//! gets an eventfd ([`Notice`]). The reactor writes to this eventfd when the stream may have become readable or
//! writable, or has ended. The reactor is a thread that waits in an epoll instance served by Sovia
//! ([`crate::epoll`]). This instance contains the streams with a [`Notice`], edge-triggered.
//!
//! **No missed wake-up.** The event loop registers the eventfd edge-triggered and never reads it. So each write
//! makes an edge, whatever was written earlier. The epoll instance reports each arrival after the bytes'
//! publication ([`crate::pair::ReadyList`]). So a loop that has read to `EAGAIN` is notified of all bytes that
//! arrive later. When a stream joins, one write to its eventfd reports earlier arrivals.
//!
//! The cost is one more wake-up: the peer wakes the reactor, and the reactor wakes the event loop. A loop that
//! waits by [`crate::epoll`] itself does not need the reactor.

use crate::per_engine::per_engine;
use crate::table::{self, Entry};
use crate::thread::{self, Ends};
use crate::{Errno, epoll, errno};
use sovia_sync::{RobustBox, rank};
use sovia_sys::{Fd, call, poll};
use std::sync::Arc;

/// All events that an edge can report.
const EVENTS: u32 = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32;

/// A stream's eventfd.
#[derive(Debug)]
pub struct Notice {
    event: Fd,
    /// The stream's descriptor at the time when it joined the epoll instance.
    fd: i32,
    token: u64,
}

struct Reactor {
    /// Process in which the reactor's thread runs; 0: none.
    owner: i32,
    epfd: i32,
    index: u32,
    tokens: u64,
    notices: Vec<(u64, Arc<Notice>)>,
}

per_engine! {
    static REACTOR: RobustBox<Reactor, { rank::REACTOR }> =
        RobustBox::new(Reactor { owner: 0, epfd: -1, index: 0, tokens: 0, notices: Vec::new() });
}

/// Creates an eventfd for the stream behind `fd`. Call [`forget`] before `fd` is closed.
///
/// # Errors
/// The kernel's error if no descriptor or thread can be made.
pub fn watch(fd: i32) -> Result<Arc<Notice>, Errno> {
    REACTOR.with(|reactor| {
        reactor.start()?;
        let event = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK));
        reactor.tokens += 1;
        let notice = Arc::new(Notice { event: event.map_err(errno)?, fd, token: reactor.tokens });
        let token = notice.token;
        reactor.notices.push((token, Arc::clone(&notice)));
        if let Err(e) = reactor.control(libc::EPOLL_CTL_ADD, fd, Some((EVENTS, token))) {
            reactor.notices.pop();
            return Err(e);
        }
        Ok(notice)
    })
}

/// Stops reports to `notice`, and removes its stream from the epoll instance.
pub fn forget(notice: &Notice) {
    REACTOR.with(|reactor| {
        let place = reactor.notices.binary_search_by_key(&notice.token, |(token, _)| *token);
        if let Ok(place) = place {
            reactor.notices.remove(place);
            if reactor.owner == call::getpid() {
                // The stream may already have left the epoll instance, together with its connection.
                let _ = reactor.control(libc::EPOLL_CTL_DEL, notice.fd, None);
            }
        }
    });
}

impl Notice {
    /// Returns the eventfd. Register it edge-triggered, and never read it.
    pub fn raw(&self) -> i32 {
        self.event.raw()
    }

    /// Writes to the eventfd, which makes an edge.
    pub fn notify(&self) {
        // Ignore an error, because the counter is full only after 2^64 writes.
        let _ = call::write(self.event.raw(), &1u64.to_ne_bytes());
    }
}

impl Reactor {
    fn start(&mut self) -> Result<(), Errno> {
        let pid = call::getpid();
        if self.owner == pid {
            return Ok(());
        }
        // In a forked child, drop the parent's notices. The reactor's thread and the event loops exist only in the
        // parent.
        self.notices.clear();
        let epfd = Fd::make(poll::epoll_create).map_err(errno)?;
        epoll::created(epfd.raw());
        let Entry::Epoll(index) = table::get(epfd.raw()) else { return Err(libc::EMFILE) };
        let argument = (u64::from(index) + 1) as usize as *mut libc::c_void;
        if !thread::start(run, argument, Ends::ByItself) {
            return Err(libc::EAGAIN);
        }
        (self.owner, self.epfd, self.index) = (pid, epfd.into_raw(), index);
        Ok(())
    }

    fn control(&self, op: i32, fd: i32, event: Option<(u32, u64)>) -> Result<usize, Errno> {
        let (events, data) = event.unwrap_or_default();
        let kernel = || poll::epoll_ctl(self.epfd, op, fd, events, data).map(|()| 0).map_err(errno);
        epoll::control(self.index, op, fd, event, kernel)
    }
}

extern "C" fn run(argument: *mut libc::c_void) -> *mut libc::c_void {
    let index = argument as usize as u32 - 1;
    let mut events = [epoll::Event { events: 0, u64: 0 }; 64];
    loop {
        let n = match epoll::wait(index, &mut events, None, None) {
            Ok(n) => n,
            Err(libc::EINTR) => 0,
            // The program has closed the reactor's epoll descriptor.
            Err(_) => return core::ptr::null_mut(),
        };
        REACTOR.with(|reactor| {
            for event in &events[..n] {
                let token = event.u64;
                let place = reactor.notices.binary_search_by_key(&token, |(token, _)| *token);
                if let Ok(place) = place {
                    reactor.notices[place].1.notify();
                }
            }
        });
    }
}

/// Takes the reactor's lock before a fork ([`crate::fork`]).
pub(crate) fn hold() {
    REACTOR.hold();
}

/// Releases the reactor's lock after a fork, in parent and child.
pub(crate) fn release() {
    REACTOR.release();
}
