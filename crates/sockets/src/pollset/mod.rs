//! poll and select over kernel descriptors and VIs at once.
//!
//! Nothing is registered between two calls, so each call looks at all its descriptors, as the
//! kernel does. To sleep, a call borrows one of the process's sleepers: a ready list with an epoll
//! instance of its own in which a doorbell lies, edge-triggered, and which the kernel's poll can
//! wait on beside the program's descriptors.

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

/// While spinning the kernel is asked this often.
const KERNEL_NS: u64 = 8_000;

/// Connections that go on to receive from TCP while the kernel waits for their bytes. Another thread may give them their VIs
/// meanwhile, and the kernel would not report what comes there.
#[derive(Debug, Default)]
pub struct OnTcp {
    readers: SmallVec<[Present<'static>; lists::FEW_OURS]>,
}

impl OnTcp {
    /// Keeps a connection there if it has no VI and those events tell of its bytes.
    fn keep(&mut self, at: Ref, events: i16) {
        let is_wanted = events & (libc::POLLIN | libc::POLLRDNORM) != 0;
        if is_wanted && at.conn.phase() == Phase::Candidate {
            // A list may have a connection twice. What a thread leaves by `longjmp`, its next receive finds.
            self.readers.push(at.conn.rx_pins.enter(false));
        }
    }
}

/// Returns what lets the kernel wait for the descriptors; `None` if one of them is an attached connection. An epoll instance
/// among them is waited on from outside from here on.
pub fn for_kernel(fds: &[PollFd]) -> Option<OnTcp> {
    let mut on_tcp = OnTcp::default();
    let mut ours = false;
    for p in fds {
        match table::get(p.fd) {
            table::Entry::Foreign | table::Entry::Private => {}
            table::Entry::Epoll(index) => epoll::polled(index),
            table::Entry::Conn(_) => {
                if let Some(at) = table::conn(p.fd) {
                    // In this order: one that has its VI by now is seen to have it.
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

/// A call that waits for descriptors, and with that what it reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Ends, errors and closed descriptors, whatever is asked for (poll(2)).
    Poll,
    /// Ends and errors only of the sets that show them (select(2), "Correspondence between select() and poll()"). A descriptor that is
    /// closed while the call waits shows in every set that has it. POLLNVAL is left to one that was closed before.
    Select,
}

impl By {
    /// Returns what may be reported for the events that the program asks for.
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

/// `ppoll`, and `pselect` by a list. `timeout` in nanoseconds, `None` for ever.
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
    // Before it is found which are attached, as in `for_kernel`.
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
                // A false alarm must not starve the descriptors of the kernel. Some of them may be ready.
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

/// Spins for as long as it pays. Returns true if it has found something. The kernel part of that is in the lists. The stack that it
/// takes is free while the caller sleeps.
#[inline(never)]
fn spin(lists: &mut Lists<'_>, mask: Option<&libc::sigset_t>) -> Result<(Spin, bool), Errno> {
    // A mask may let a signal come, also where no descriptor is the kernel's.
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

/// A call about one connection and one direction sleeps as a receive or a send would, on the
/// direction's own word: no sleeper, no doorbell, one system call. `None` if it is not such a call, or
/// no more: then `has_waited` says so.
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
        // Closed by another thread: it is no such call any more.
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
        // Back on TCP, or closed meanwhile by another thread.
        Err(_) => None,
    }
}
