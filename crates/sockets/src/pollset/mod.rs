//! poll and select over kernel descriptors and VIs at once.
//!
//! Nothing is registered between two calls, so each call looks at all its descriptors, as the kernel does. To sleep, a
//! call borrows one of the process's sleepers. A sleeper is a ready list with an epoll instance of its own, which
//! contains a doorbell, edge-triggered. The kernel's poll waits for this instance beside the program's descriptors.

mod lists;
mod sleeper;

pub(crate) use sleeper::{begin_anew, forked};

use crate::conn::Phase;
use crate::ops::keep;
use crate::pair::{self, Pair};
use crate::process::PLAIN;
use crate::stream::{Watch, combine};
use crate::table::{self, Ref};
use crate::wait::{self, Call, Ended, FRUITLESS, Spin, Want};
use crate::{Errno, Outcome, epoll, kernel_sockets, process, sets};
use lists::Lists;
use sleeper::Terms;
use smallvec::SmallVec;
use sovia_signal::interrupt::Moment;
use sovia_sync::presence::Present;
use sovia_sys::clock;
use sovia_sys::poll::PollFd;

/// Interval in nanoseconds at which a spin asks the kernel.
const KERNEL_NS: u64 = 8_000;

/// Connections that must continue to receive on TCP while the kernel waits for their bytes. Otherwise another thread
/// could attach them meanwhile, and the kernel would not report bytes on the VI.
#[derive(Debug, Default)]
pub struct OnTcp {
    readers: SmallVec<[Present<'static>; lists::FEW_OURS]>,
}

impl OnTcp {
    /// Keeps a connection on TCP if it is not yet accelerated and `events` include its bytes.
    fn keep(&mut self, at: Ref, events: i16) {
        let is_wanted = events & (libc::POLLIN | libc::POLLRDNORM) != 0;
        if is_wanted && at.conn.phase() == Phase::Candidate {
            // A list may contain a connection twice. If a thread leaves by `longjmp`, its next receive repairs the
            // count.
            self.readers.push(at.conn.rx_pins.enter(false));
        }
    }
}

/// Prepares the kernel's wait for the descriptors. Returns `None` if one of them is an attached connection. An epoll
/// instance among them counts as waited on from outside from now on.
pub fn for_kernel(fds: &[PollFd]) -> Option<OnTcp> {
    let mut on_tcp = OnTcp::default();
    let mut ours = false;
    for p in fds {
        match table::get(p.fd) {
            table::Entry::Foreign | table::Entry::Private => {}
            table::Entry::Epoll(index) => epoll::polled(index),
            table::Entry::Conn(_) => {
                if let Some(at) = table::conn(p.fd) {
                    // In this order: a connection that has just got its VI is then seen as attached.
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

/// Call that waits for descriptors. The two calls report different events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// poll(2): always reports ends, errors and closed descriptors.
    Poll,
    /// select(2), "Correspondence between select() and poll()": reports ends and errors only in the sets that show
    /// them. A descriptor that is closed during the wait shows in every set that has it. POLLNVAL means that the
    /// descriptor was closed before the call.
    Select,
}

impl By {
    /// Returns the events that may be reported if the program asks for `events`.
    pub fn reports(self, events: i16) -> i16 {
        let ends = match self {
            By::Poll => libc::POLLERR | libc::POLLHUP,
            By::Select if events & libc::POLLIN != 0 => libc::POLLERR | libc::POLLHUP,
            By::Select if events & libc::POLLOUT != 0 => libc::POLLERR,
            By::Select => 0,
        };
        events | ends | libc::POLLNVAL
    }
}

/// `ppoll`, and `pselect` by a list. `timeout` is in nanoseconds; `None` waits for ever.
pub fn wait(
    fds: &mut [PollFd],
    by: By,
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
    // Before the list of attached connections is made, as in `for_kernel`.
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
        if process::is_confined() {
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
        let (spin, found) = spin(&mut lists, mask)?;
        if found {
            spin.learn();
            let n = lists.look();
            if n > 0 {
                return lists.report(n);
            }
            let mut n = lists.merge();
            if n == 0 && !only_ours {
                // A false alarm must not starve the kernel's descriptors: some may be ready.
                lists.ask_kernel_under_own_mask()?;
                n = lists.merge();
            }
            if n > 0 {
                return Ok(n);
            }
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

/// Spins while spinning pays. Returns true if an event was found. Events from the kernel are then in the lists. Not
/// inlined: its stack frame is free again while the caller sleeps.
#[inline(never)]
fn spin(lists: &mut Lists<'_>, mask: Option<&libc::sigset_t>) -> Result<(Spin, bool), Errno> {
    // With a mask a signal may come in, even if the kernel serves no descriptor.
    let asks = mask.is_some() || !lists.are_all_ours();
    let waits = wait::begin();
    let mut watches: SmallVec<[Watch<'_>; lists::FEW_OURS]> = SmallVec::new();
    combine::before_waiting();
    let mut worth = false;
    for at in lists.ours() {
        at.conn.begin_waiting();
        if let Some(guard) = at.attached() {
            watches.push(Watch::new(&guard, &waits));
            worth |= pair::of(&guard).is_some_and(Pair::worth_spinning);
        }
    }
    let mut spin = Spin::begin(worth);
    let mut from_kernel = Ok(0);
    let found = spin.run(
        || watches.iter().any(Watch::changed),
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

/// Waits for one connection and one direction. The call sleeps like a receive or a send, on the direction's futex word,
/// with one system call. Returns `None` if the call is not of this kind, or is not any more. Sets `has_waited` if the
/// call has waited.
fn wait_for_one(
    one: &mut PollFd,
    by: By,
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
        let mask = sets::readiness_under(guard, at, fd, interest) as u16 as i16 & reported;
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
