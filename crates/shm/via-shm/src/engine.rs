//! The NIC's own thread, one per process: what a NIC in hardware would do by itself.
//!
//! Sends execute in their callers and receives in the threads that look for them, so mostly it sleeps.
//! It is woken, through an eventfd that the peer has,
//!
//! - when a peer's RDMA is to be carried out here;
//! - when a message arrives at a VI whose program has posted a receive and does not call (it
//!   computes, sleeps, or looks at the descriptor's status or a completion queue's event), or when
//!   there is room for a send that waits and whose program does not call;
//! - when a peer's process ends.
//!
//! A program that polls must not pay for that. So a VI with posted receives is *listed* first:
//! the engine looks at it now and then, and only when its program has not called since the last
//! look is the VI *armed*, which makes senders wake the engine for it. A program that calls again
//! and again disarms it. A process in which no thread posts, polls or sends is never woken.

use crate::link::{ENGINE, Link};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, call, process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// How often listed VIs are looked at: at first, and at most (nanoseconds).
const TICK_FIRST: u64 = 1_000_000;
const TICK_LAST: u64 = 16_000_000;

/// What may be listed.
pub(crate) trait Listed: Send + Sync {
    /// A look; whether another one is wanted.
    fn tick(&self) -> bool;
}

/// What may want a thread that could not be started.
pub(crate) trait Starts: Send + Sync {
    /// Another try; whether there is nothing left to start.
    fn start(&self) -> bool;
}

#[derive(Default)]
struct Charges {
    links: Vec<Arc<Link>>,
    /// Every NIC.
    starts: Vec<Weak<dyn Starts>>,
    listed: Vec<Weak<dyn Listed>>,
}

struct Shared {
    charges: Mutex<Charges>,
    /// Wakes the thread: by peers, and when its charges change.
    wake: Fd,
    stop: AtomicBool,
    /// Some of `starts` want a thread.
    threads_wanted: AtomicBool,
}

/// The thread, which ends when this is dropped.
pub(crate) struct Engine(Arc<Shared>);

impl core::fmt::Debug for Engine {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Shared {
    fn charges(&self) -> MutexGuard<'_, Charges> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nudge(&self) {
        let _ = call::write(self.wake.raw(), &1u64.to_ne_bytes());
    }
}

impl Engine {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the system says where it has no more descriptors or threads.
    pub(crate) fn start() -> std::io::Result<Engine> {
        let wake = call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)
            .map_err(|e| std::io::Error::from_raw_os_error(e.into_raw()))?;
        let shared = Arc::new(Shared {
            charges: Mutex::default(),
            wake: Fd::adopt(wake),
            stop: AtomicBool::new(false),
            threads_wanted: AtomicBool::new(false),
        });
        let for_thread = shared.clone();
        process::without_signals(|| {
            thread::Builder::new().name("via-shm".into()).spawn(move || run(&for_thread))
        })?;
        Ok(Engine(shared))
    }

    /// What a peer wakes it by.
    pub(crate) fn doorbell(&self) -> &Fd {
        &self.0.wake
    }

    /// The links that are alive.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.0.charges().links.iter().filter(|link| !link.is_dead()).cloned().collect()
    }

    /// Keeps a link, and watches its peer.
    pub(crate) fn keep(&self, link: Arc<Link>) {
        let mut charges = self.0.charges();
        charges.links.retain(|link| !link.is_over());
        charges.links.push(link);
        drop(charges);
        self.0.nudge();
    }

    /// Forgets a link that the peer no longer knows; its VIs, if any, are broken.
    pub(crate) fn forget(&self, link: &Arc<Link>) {
        link.died();
        self.0.charges().links.retain(|other| !Arc::ptr_eq(other, link));
        self.0.nudge();
    }

    /// Wakes the engine's thread.
    pub(crate) fn nudge(&self) {
        self.0.nudge();
    }

    /// Starts threads for it when they are wanted, as long as it lives.
    pub(crate) fn start_for(&self, starts: Weak<dyn Starts>) {
        let mut charges = self.0.charges();
        charges.starts.retain(|other| other.strong_count() > 0);
        charges.starts.push(starts);
    }

    /// A thread could not be started: tries again from time to time. Takes no lock.
    #[cold]
    pub(crate) fn want_threads(&self) {
        self.0.threads_wanted.store(true, Ordering::SeqCst);
        self.0.nudge();
    }

    /// As [`Engine::list`], of several.
    pub(crate) fn list_all(&self, mut listed: Vec<Weak<dyn Listed>>) {
        if !listed.is_empty() {
            self.0.charges().listed.append(&mut listed);
            self.0.nudge();
        }
    }

    /// Looks at something from time to time, until it wants no more of it.
    pub(crate) fn list(&self, listed: Weak<dyn Listed>) {
        self.0.charges().listed.push(listed);
        self.0.nudge();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.nudge();
    }
}

fn run(shared: &Shared) {
    let mut tick = None;
    let mut fds = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        let links = shared.charges().links.clone();
        fds.clear();
        fds.push(PollFd { fd: shared.wake.raw(), events: libc::POLLIN, revents: 0 });
        for link in &links {
            // A negative number is skipped. The socket is watched for its end only: what it
            // carries is for others.
            let socket = link.socket.as_ref().map_or(-1, |socket| socket.raw());
            let process = link.process.as_ref().map_or(-1, |process| process.raw());
            fds.push(PollFd { fd: socket, events: 0, revents: 0 });
            fds.push(PollFd { fd: process, events: libc::POLLIN, revents: 0 });
        }
        let _ = ppoll(&mut fds, if about_to_sleep(&links) { tick } else { Some(0) }, None);
        for (link, side) in sides(&links) {
            link.segment.ready_list(side, ENGINE).awake();
        }
        if fds[0].revents != 0 {
            let _ = call::read(shared.wake.raw(), &mut [0; 8]);
            // The ringer has left a mark, whatever the summary says.
            for (link, side) in sides(&links) {
                link.segment.ready_list(side, ENGINE).summarise();
            }
        }
        for (link, seen) in links.iter().zip(fds[1..].chunks_exact(2)) {
            link.attend();
            if seen.iter().any(|fd| fd.revents != 0) {
                link.died();
            }
        }
        shared.charges().links.retain(|link| !link.is_over());
        tick = look_after(shared, tick);
    }
}

fn sides(links: &[Arc<Link>]) -> impl Iterator<Item = (&Arc<Link>, usize)> {
    links.iter().flat_map(|link| link.sides().map(move |side| (link, side)))
}

/// Announces sleep to the peers; false if there is something to do already.
fn about_to_sleep(links: &[Arc<Link>]) -> bool {
    for (link, side) in sides(links) {
        link.segment.ready_list(side, ENGINE).going_to_sleep();
    }
    !sides(links).any(|(link, side)| link.segment.ready_list(side, ENGINE).has_news())
}

/// Starts threads that are wanted; whether some still are.
fn start_threads(shared: &Shared) -> bool {
    if !shared.threads_wanted.swap(false, Ordering::SeqCst) {
        return false;
    }
    // Not under the lock: what is started may end here, and its end may take the lock.
    let starts = shared.charges().starts.clone();
    let waiting = starts.iter().filter_map(Weak::upgrade).filter(|one| !one.start()).count() > 0;
    if waiting {
        shared.threads_wanted.store(true, Ordering::SeqCst);
    }
    waiting
}

/// Looks at what is listed, and sees to threads; how long until the next look.
fn look_after(shared: &Shared, tick: Option<u64>) -> Option<u64> {
    let starting = start_threads(shared).then_some(TICK_LAST);
    let listed = look_at_listed(shared, tick);
    listed.or(starting)
}

/// Looks at what is listed; how long until the next look.
fn look_at_listed(shared: &Shared, tick: Option<u64>) -> Option<u64> {
    // Not under the lock: what is looked at may have itself listed again.
    let mut listed = core::mem::take(&mut shared.charges().listed);
    if listed.is_empty() {
        return None;
    }
    listed.retain(|one| one.upgrade().is_some_and(|one| one.tick()));
    let mut charges = shared.charges();
    let fresh = !charges.listed.is_empty();
    charges.listed.append(&mut listed);
    match tick {
        _ if charges.listed.is_empty() => None,
        Some(tick) if !fresh => Some((tick * 2).min(TICK_LAST)),
        _ => Some(TICK_FIRST),
    }
}
