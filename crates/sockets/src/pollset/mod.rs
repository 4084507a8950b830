//! poll and select for descriptors that the kernel serves, and for VIs.
//!
//! Nothing stays registered between two calls, so each call checks all its descriptors, like in the kernel. To
//! sleep, a call borrows one of the process's sleepers. A sleeper has a ready list in each pair, and an epoll
//! instance with a doorbell, edge-triggered. The call asks the kernel to poll this instance together with the
//! program's descriptors.

mod lists;
mod sleeper;

pub(crate) use sleeper::{begin_anew, forked};

use crate::conn::Phase;
use crate::ops::keep;
use crate::pair::{self, Pair};
use crate::process::PLAIN;
use crate::stream::{WatchedWords, combine};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, FRUITLESS, Spin, Want};
use crate::{Errno, Outcome, epoll, epoll_sets, kernel_sockets, process};
use lists::Lists;
use sleeper::Terms;
use smallvec::SmallVec;
use sovia_signal::interrupt::Moment;
use sovia_sync::callers::CountedCaller;
use sovia_sys::clock;
use sovia_sys::poll::PollFd;

/// Interval in nanoseconds at which a spinning call asks the kernel.
const KERNEL_NS: u64 = 8_000;

/// Keeps connections from receiving on a VI while the kernel waits for their bytes. Without this, another thread
/// could make a VI for a connection meanwhile, and the kernel would not report bytes on the VI.
#[derive(Debug, Default)]
pub struct OnTcp {
    readers: SmallVec<[CountedCaller<'static>; lists::FEW_OURS]>,
}

impl OnTcp {
    /// Keeps the connection on TCP if it is not yet accelerated and `events` ask for its bytes.
    fn keep(&mut self, at: Ref, events: i16) {
        let is_wanted = events & (libc::POLLIN | libc::POLLRDNORM) != 0;
        if is_wanted && at.conn.phase() == Phase::Eligible {
            // A list may contain a connection twice, so do not enter as the only user. If a thread leaves by
            // `longjmp`, its next receive repairs the count.
            self.readers.push(at.conn.rx_pins.enter(false));
        }
    }
}

/// Prepares the kernel's wait for `fds`. Returns `None` if one of them is a connection with a VI. Moves the
/// connections in epoll instances among `fds` to TCP.
pub fn for_kernel(fds: &[PollFd]) -> Option<OnTcp> {
    let mut on_tcp = OnTcp::default();
    let mut ours = false;
    for p in fds {
        match table::get(p.fd) {
            table::Entry::Foreign | table::Entry::Private => {}
            table::Entry::Epoll(index) => epoll::polled(index),
            table::Entry::Conn(_) => {
                if let Some(at) = table::conn(p.fd) {
                    // Keep the connection first and check it afterwards. So a connection that has just got its VI
                    // is not missed.
                    on_tcp.keep(at, p.events);
                    ours |= at.is_attached_here();
                }
            }
        }
    }
    (!ours).then_some(on_tcp)
}

fn attached(fd: i32) -> Option<Ref> {
    table::conn(fd).filter(|at| at.conn.is_attached_here())
}

/// The program's call that waits for descriptors. The calls report different events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollCall {
    /// poll(2): always reports ends, errors and closed descriptors.
    Poll,
    /// select(2), "Correspondence between select() and poll()": reports ends and errors only in the sets that show
    /// them. A descriptor that is closed during the wait is reported in each of its sets. POLLNVAL means that the
    /// descriptor was closed before the call.
    Select,
}

impl PollCall {
    /// Returns the events that may be reported if the program asks for `events`.
    pub fn reports(self, events: i16) -> i16 {
        let ends = match self {
            PollCall::Poll => libc::POLLERR | libc::POLLHUP,
            PollCall::Select if events & libc::POLLIN != 0 => libc::POLLERR | libc::POLLHUP,
            PollCall::Select if events & libc::POLLOUT != 0 => libc::POLLERR,
            PollCall::Select => 0,
        };
        events | ends | libc::POLLNVAL
    }
}

/// Does `ppoll`, and `pselect` for a list of descriptors. `timeout` is in nanoseconds; `None` means no limit.
pub fn wait(
    fds: &mut [PollFd],
    by: PollCall,
    timeout: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Outcome {
    crate::wait::cancellation_point();
    let until = timeout.map(|t| clock::now_ns().saturating_add(t));
    let terms = Terms { until, mask, since: Moment::under(mask) };
    let mut has_waited = false;
    if let [one] = fds
        && timeout != Some(0)
        && mask.is_none()
        && let Some(result) = wait_for_one(one, by, &terms, &mut has_waited)
    {
        return result;
    }
    // Keep connections on TCP before the list of connections with a VI is made, like in `for_kernel`.
    let mut on_tcp = OnTcp::default();
    for p in fds.iter() {
        if let Some(at) = table::conn(p.fd) {
            on_tcp.keep(at, p.events);
        }
    }
    let mut lists = Lists::new(fds, by, has_waited);
    let mut fruitless = 0;
    let mut inside = None;
    let is_over = || until.is_some_and(|until| clock::now_ns() >= until);
    if lists.ours().len() > 0 {
        kernel_sockets::ensure_for_a_look();
    }
    loop {
        if process::is_under_seccomp() {
            return Err(PLAIN);
        }
        let n = lists.look();
        let only_ours = lists.are_all_ours();
        if lists.any_has_left() {
            continue;
        }
        if n > 0 {
            return lists.report(n);
        }
        if timeout == Some(0) || inside.is_some() && is_over() {
            lists.ask_kernel(mask)?;
            return Ok(lists.merge());
        }
        if inside.is_none() {
            inside = Some(process::begin_waiting()?);
        }
        let (mut spin, found) = spin(&mut lists, mask)?;
        if found {
            let n = lists.look();
            if n > 0 {
                spin.learn();
                return lists.report(n);
            }
            let mut n = lists.merge();
            if n == 0 && !only_ours {
                // Ask the kernel after a false alarm, because some of its descriptors may be ready.
                lists.ask_kernel_under_own_mask()?;
                n = lists.merge();
            }
            if n > 0 {
                spin.learn();
                return Ok(n);
            }
            spin.was_in_vain();
            fruitless += 1;
            if fruitless < FRUITLESS || is_over() {
                continue;
            }
        }
        fruitless = 0;
        kernel_sockets::ensure();
        sleeper::sleep(&mut lists, &terms)?;
        spin.learn();
        let n = lists.look();
        if n > 0 {
            return lists.report(n);
        }
        let n = lists.merge();
        if n > 0 {
            return Ok(n);
        }
    }
}

/// Spins as long as this pays. Returns true if an event was found. Events from the kernel are then in `lists`. Not
/// inlined, so that this function's stack frame is free while the caller sleeps.
#[inline(never)]
fn spin(lists: &mut Lists<'_>, mask: Option<&libc::sigset_t>) -> Result<(Spin, bool), Errno> {
    // With a signal mask, ask the kernel even if it serves no descriptor, because the mask may let a signal in.
    let asks = mask.is_some() || !lists.are_all_ours();
    let waits = wait::begin();
    let mut watches: SmallVec<[WatchedWords<'_>; lists::FEW_OURS]> = SmallVec::new();
    combine::before_waiting();
    let mut worth = false;
    for at in lists.ours() {
        at.conn.begin_waiting();
        if let Some(guard) = at.attached() {
            watches.push(WatchedWords::new(&guard, &waits));
            worth |= pair::of(&guard).is_some_and(Pair::worth_spinning);
        }
    }
    let mut spin = Spin::begin(worth);
    let mut from_kernel = Ok(0);
    let found = spin.run(
        || watches.iter().any(WatchedWords::changed),
        KERNEL_NS,
        || {
            if asks {
                from_kernel = lists.ask_kernel(mask);
            }
            from_kernel != Ok(0)
        },
    );
    drop(watches);
    drop(waits);
    for at in lists.ours() {
        at.conn.end_waiting();
    }
    from_kernel.map(|_| (spin, found))
}

/// Waits for one direction of one connection. The call sleeps on the direction's futex word, like a receive or a
/// send, with one system call. Returns `None` if the call asks for other events, or if the connection has left its
/// VI or was closed. Sets `has_waited` if the call has waited.
fn wait_for_one(
    one: &mut PollFd,
    by: PollCall,
    terms: &Terms<'_>,
    has_waited: &mut bool,
) -> Option<Outcome> {
    const IN: i16 = libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
    const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM;
    let want = match one.events {
        0 | libc::POLLRDHUP => return None,
        events if events & !IN == 0 => Want::Receive,
        events if events & !OUT == 0 => Want::Send,
        _ => return None,
    };
    let at = attached(one.fd)?;
    crate::fallback::settle(at);
    let (fd, interest) = (one.fd, one.events as u16 as u32);
    let reported = by.reports(one.events);
    let mut call = Call::begin(fd, at, terms.until, terms.since);
    call.ends_at_handler = true;
    *has_waited = true;
    let result = wait::until(&mut call, want, |guard| {
        if !table::refers(fd, at) {
            return Some(0);
        }
        let fd = keep::descriptor(fd, at);
        let mask = epoll_sets::readiness_under(guard, at, fd, interest) as u16 as i16 & reported;
        (mask != 0).then_some(mask)
    });
    keep::leave();
    match result {
        // Another thread has closed the descriptor.
        Ok(0) => None,
        Err(Ended::Failed(libc::EAGAIN)) if !table::refers(fd, at) => None,
        Ok(mask) => {
            one.revents = mask;
            Some(Ok(1))
        }
        Err(Ended::Failed(libc::EAGAIN)) => {
            one.revents = 0;
            Some(Ok(0))
        }
        Err(Ended::Failed(libc::EINTR)) => Some(Err(libc::EINTR)),
        // The connection fell back to TCP, or another thread has closed the descriptor.
        Err(_) => None,
    }
}
