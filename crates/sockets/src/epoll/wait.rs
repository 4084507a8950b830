//! epoll_wait: collects events of VIs, and regularly events from the kernel. If there are no events, spins, then
//! sleeps.

use super::Event;
use crate::epoll_sets::{EpollSet, get, is_own};
use crate::pair::{ReadyList, notification_sockets};
use crate::process::{PLAIN, Waiting};
use crate::stream::combine;
use crate::wait::{Spin, before_kernel_wait};
use crate::{Errno, Outcome, errno, fallback, kernel_sockets, process};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use sovia_signal::interrupt::Moment;
use sovia_sys::{clock, poll};
use std::sync::Arc;

/// Longest interval in nanoseconds between two checks of the kernel's instance, even if VIs always have events.
const KERNEL_NS: u64 = 10_000;
/// Largest number of rounds between two checks of the kernel's instance.
const KERNEL_EVERY: u32 = 32;

/// Does `epoll_wait` and its variants. `timeout` is in nanoseconds; `None` means no limit.
pub fn wait(
    index: u32,
    out: &mut [Event],
    timeout: Option<u64>,
    mask: Option<&libc::sigset_t>,
) -> Outcome {
    crate::wait::cancellation_point();
    let Some(set) = get(index) else { return Err(libc::EBADF) };
    let mut has_rung = false;
    let result = wait_in(set, out, timeout, mask, &mut has_rung);
    if has_rung {
        pass_on(index);
    }
    result
}

/// A sleep in the program's own call, on an instance in which no connection has a VI.
#[derive(Debug)]
#[must_use = "its end must be counted"]
pub struct KernelSleep(&'static EpollSet);

impl KernelSleep {
    /// Counts the calling thread as sleeping in an instance. Returns `None` if a connection in the instance has a
    /// VI. Then the program must call [`wait`] instead of the kernel.
    pub fn begin(index: u32) -> Option<KernelSleep> {
        let set = get(index)?;
        before_kernel_wait();
        // SYNC: pairs with `EpollSet::take_in`. Either `take_in` finds this thread asleep, or this thread finds the
        // connection.
        set.asleep.fetch_add(1, Ordering::SeqCst);
        let sleep = KernelSleep(set);
        if set.attached.load(Ordering::SeqCst) == 0 {
            return Some(sleep);
        }
        sleep.end();
        None
    }

    /// Ends the sleep. This is not done by `drop`, because a cancelled thread may leave the call without running
    /// `drop`.
    pub fn end(self) {
        self.0.count_awake();
    }
}

/// Remembers the order of events that the program's own call has reported. No connection in the instance has a VI.
pub fn note_order(index: u32, events: &mut [Event]) {
    if let Some(set) = get(index) {
        set.with(|inner| inner.order.arrange(events, 0));
    }
}

/// Wakes another thread that sleeps in the instance, if there is an event. Call it after [`filter`] has removed an
/// event of the library's own, because this event could have woken the other thread.
pub fn pass_on(index: u32) {
    if let Some(set) = get(index) {
        set.with(|inner| set.wake_sleeper(inner));
    }
}

/// Implements [`wait`] for `set`. Sets `has_rung` once the wait has taken an event of the library's own.
fn wait_in(
    set: &EpollSet,
    out: &mut [Event],
    timeout: Option<u64>,
    mask: Option<&libc::sigset_t>,
    has_rung: &mut bool,
) -> Outcome {
    let generation = set.generation();
    let collect =
        |out: &mut [Event]| set.with_generation(generation, |inner| set.collect(inner, out));
    let since = Moment::under(mask);
    let mut deadline = None;
    let mut inside = None;
    // Read the clock again only after time has passed, because this costs as much as a collection.
    let mut now = clock::now_ns();
    let mut again = false;
    loop {
        if process::is_under_seccomp() {
            return Err(PLAIN);
        }
        let (mut n, places, look, is_mixed, moved, number) =
            set.with_generation(generation, |inner| {
                inner.rounds += 1;
                let unseen = now.saturating_sub(inner.looked);
                let is_mixed = inner.order.is_mixed();
                let due = unseen >= KERNEL_NS || inner.rounds >= KERNEL_EVERY || is_mixed;
                if due {
                    inner.looks_at_kernel(now);
                    inner.kernel_first = !inner.kernel_first;
                }
                // Neither source may starve the other. So every second check reserves half of the places for the
                // kernel's events.
                let places = if due && inner.kernel_first { out.len() / 2 } else { out.len() };
                let n = set.collect(inner, &mut out[..places]);
                if n == out.len() {
                    // The VIs' events have filled all places, so check the kernel's instance earlier.
                    inner.rounds += KERNEL_EVERY / 4;
                }
                // Check the kernel early if no VI has an event that would have to wait.
                let early = !due && n == 0 && unseen >= KERNEL_NS / 2;
                if early {
                    inner.looks_at_kernel(now);
                }
                (
                    n,
                    places,
                    due || early,
                    is_mixed,
                    set.moved.load(Ordering::Acquire),
                    inner.collections,
                )
            })?;
        set.settle(fallback::settle_in_epoll_sets);
        if n > 0 || look {
            // Both sources may report an event of a connection that has just moved between them.
            let merge_if_moved = |events: &mut [Event], n| {
                let has_moved = set.moved.load(Ordering::Acquire) != moved;
                if has_moved { merge(events, n) } else { events.len() }
            };
            let mut vis = n;
            if look && n < out.len() {
                let more = set
                    .kernel(&mut out[n..], mask, has_rung)
                    .or_else(|e| if n > 0 { Ok(0) } else { Err(e) })?;
                n = merge_if_moved(&mut out[..n + more], n);
            }
            if vis == places && n < out.len() {
                // Fill the places that the kernel's events have left free. Another thread may have collected events
                // meanwhile.
                let rest = &mut out[n..];
                let visit = |inner: &mut _| set.visit(inner, rest, number);
                let more = set.with_generation(generation, visit).unwrap_or(0);
                let more = merge_if_moved(&mut out[..n + more], n) - n;
                out[vis..n + more].rotate_right(more);
                (vis, n) = (vis + more, n + more);
            }
            if n > vis || is_mixed {
                set.with(|inner| inner.order.arrange(&mut out[..n], vis));
            }
            if n == 0 {
                n = collect(out)?;
                if set.settle(fallback::settle_in_epoll_sets) && n == 0 {
                    // The kernel reports these connections from now on, so ask again.
                    continue;
                }
            }
            if n > 0 || timeout == Some(0) {
                return Ok(n);
            }
        }
        kernel_sockets::ensure_for_a_look();
        if timeout == Some(0) {
            return set.kernel(out, mask, has_rung);
        }
        let until = match (timeout, deadline) {
            (None, _) => None,
            (Some(_), Some(deadline)) => Some(deadline),
            (Some(timeout), None) => Some(now.saturating_add(timeout)),
        };
        deadline = until;
        if again {
            now = clock::now_ns();
            if until.is_some_and(|until| now >= until) {
                return Ok(0);
            }
        }
        match set.spin_or_sleep(out, until, mask, &since, &mut inside, has_rung)? {
            Waited::Moment => again = true,
            Waited::Long(0) => {
                now = clock::now_ns();
                if until.is_some_and(|until| now >= until) {
                    let n = collect(out)?;
                    set.settle(fallback::settle_in_epoll_sets);
                    return Ok(n);
                }
            }
            Waited::Long(n) => {
                set.with(|inner| inner.order.arrange(&mut out[..n], 0));
                return Ok(n);
            }
        }
    }
}

/// Result of [`EpollSet::spin_or_sleep`].
enum Waited {
    /// A VI had an event after so short a time that the clock need not be read.
    Moment,
    /// Number of events from the kernel's instance. 0 if a VI has an event, or a sleep has ended.
    Long(usize),
}

/// Merges each event from position `n` on into an earlier event with the same user data, if there is one. Returns
/// the number of events left.
fn merge(events: &mut [Event], n: usize) -> usize {
    let mut end = n;
    for i in n..events.len() {
        let Event { events: mask, u64: data } = events[i];
        match events[..n].iter_mut().find(|event| event.u64 == data) {
            Some(earlier) => earlier.events |= mask,
            None => {
                events[end] = events[i];
                end += 1;
            }
        }
    }
    end
}

impl EpollSet {
    /// Collects the kernel's events without waiting. Removes the library's own events, and then sets `has_rung`.
    fn kernel(
        &self,
        out: &mut [Event],
        mask: Option<&libc::sigset_t>,
        has_rung: &mut bool,
    ) -> Outcome {
        loop {
            let before = out.first().copied();
            let n = poll::epoll_wait(self.epfd(), out, Some(0), mask).map_err(errno)?;
            let kept = filter(&mut out[..n], before);
            *has_rung |= kept < n;
            // Ask again if the doorbell took the only place. The doorbell's event is an edge and does not come
            // again, so the kernel now reports other events.
            if kept > 0 || n < out.len() {
                return Ok(kept);
            }
        }
    }

    /// Waits once. Sets `inside` before the thread first waits in system calls. Sets `has_rung` if the wait has
    /// taken an event of the library's own.
    fn spin_or_sleep(
        &self,
        out: &mut [Event],
        until: Option<u64>,
        mask: Option<&libc::sigset_t>,
        since: &Moment,
        inside: &mut Option<Waiting>,
        has_rung: &mut bool,
    ) -> Result<Waited, Errno> {
        combine::before_waiting();
        // Remember up to 16 ready lists, which are nearly always all. `waits` keeps the lists mapped even if
        // another thread closes the instance.
        let waits = crate::wait::begin();
        let mut ready_lists: [Option<NonNull<ReadyList>>; 16] = [None; 16];
        let (count, worth) = self.with(|inner| {
            for (to, watched_pair) in ready_lists.iter_mut().zip(&inner.watched_pairs) {
                waits.keep(Arc::as_ptr(&watched_pair.pair).addr());
                *to = Some(NonNull::from(watched_pair.ready_list()));
            }
            (
                inner.watched_pairs.len(),
                inner.watched_pairs.iter().any(|watched_pair| watched_pair.pair.worth_spinning()),
            )
        });
        let ready_lists = &ready_lists[..count.min(16)];
        // SAFETY: a ready list lies in its pair's segment. The segment stays mapped while `waits` names the pair.
        let has_events =
            |ready_list: &NonNull<ReadyList>| unsafe { ready_list.as_ref() }.has_events();
        let has_event = || ready_lists.iter().flatten().any(has_events);
        let mut spin = Spin::begin(worth);
        if spin.first(has_event) {
            return Ok(Waited::Moment);
        }
        if inside.is_none() {
            *inside = Some(process::begin_waiting()?);
        }
        let mut from_kernel = Ok(0);
        let found = spin.rest(has_event, KERNEL_NS, || {
            from_kernel = self.kernel(out, mask, has_rung);
            !matches!(from_kernel, Ok(0))
        });
        drop(waits);
        if found {
            spin.learn();
            return from_kernel.map(Waited::Long);
        }
        kernel_sockets::ensure();
        let has_event = self.with(|inner| {
            self.asleep.fetch_add(1, Ordering::SeqCst);
            self.announce_sleep(inner);
            inner.has_events() || !inner.ready.is_empty()
        });
        let result = if has_event {
            Ok(0)
        } else {
            let left = until.map(|until| until.saturating_sub(clock::now_ns()));
            let left = kernel_sockets::shortened(left);
            crate::stats::slept();
            let make = |call| since.make(call);
            let before = out.first().copied();
            let sleep = || poll::epoll_wait_by(make, self.epfd(), out, left, mask).map_err(errno);
            crate::wait::cancellable(sleep).map(|n| {
                let kept = filter(&mut out[..n], before);
                *has_rung |= kept < n;
                kept
            })
        };
        self.with(|inner| {
            // Do this under the lock, so that it comes before or after another thread's announcement of its sleep,
            // not in between.
            if self.count_awake() {
                for watched_pair in &inner.watched_pairs {
                    watched_pair.ready_list().awake();
                }
            }
        });
        spin.learn();
        result.map(Waited::Long)
    }
}

/// Removes the library's own events from the kernel's events. Returns the number of events left. If none is left,
/// restores `before` to the first place, because a program may use this memory in its next `epoll_ctl`.
pub fn filter(events: &mut [Event], before: Option<Event>) -> usize {
    let mut kept = 0;
    for i in 0..events.len() {
        let event = events[i];
        let data = { event.u64 };
        if !notification_sockets::take_notification(data) && !is_own(data) {
            events[kept] = event;
            kept += 1;
        }
    }
    if let (0, Some(first), Some(before)) = (kept, events.first_mut(), before) {
        *first = before;
    }
    kept
}
