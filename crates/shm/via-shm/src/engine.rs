//! The engine: the NIC's own thread, one per process. The engine does work that a hardware NIC would do by itself.
//!
//! A send executes in the thread that posts it. A receive executes in the thread that looks for messages. So the
//! engine mostly sleeps, and wakes in these cases:
//!
//! - A peer has requested an RDMA that this process must execute.
//! - The peer has sent a message to a VI whose program has posted a receive and makes no calls. (The program
//!   computes, sleeps, or polls the descriptor's status or a completion queue's event.)
//! - The peer has made room for a send that waits for room, and the program makes no calls.
//! - A peer's process has ended.
//!
//! In the first three cases, the peer wakes the engine by a write to the engine's eventfd. If a program polls, no
//! sender should make this write. So a VI with posted receives is first *listed*: the engine looks at the VI from
//! time to time. If the program has not polled the VI between two of these looks, the VI becomes *armed*. Senders
//! wake the engine when they send to an armed VI. If the program polls an armed VI repeatedly, the VI is disarmed.

use crate::link::{ENGINE, Link};
use core::sync::atomic::{AtomicBool, Ordering};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::{Fd, call, process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

/// Shortest time between the engine's looks at the listed VIs, in nanoseconds. `TICK_LAST` is the longest time.
const TICK_FIRST: u64 = 1_000_000;
const TICK_LAST: u64 = 16_000_000;

/// An object that can be listed: the engine looks at a listed object from time to time.
pub(crate) trait Listed: Send + Sync {
    /// Looks at the object. Returns true if the object stays listed.
    fn tick(&self) -> bool;
}

/// An object that starts threads, and must try again later if the system had no more threads.
pub(crate) trait Starts: Send + Sync {
    /// Tries again to start the thread. Returns true if no thread is missing.
    fn start(&self) -> bool;
}

#[derive(Default)]
struct Charges {
    links: Vec<Arc<Link>>,
    /// All NICs of the process, which start callback threads.
    starts: Vec<Weak<dyn Starts>>,
    listed: Vec<Weak<dyn Listed>>,
}

struct Shared {
    charges: Mutex<Charges>,
    /// Eventfd that wakes the engine's thread. A peer writes to the eventfd after an event. This process writes to
    /// the eventfd after it has changed the links or the listed objects.
    wake: Fd,
    stop: AtomicBool,
    /// Set while some of `starts` need a thread.
    threads_wanted: AtomicBool,
}

/// Handle of the engine's thread. The thread ends when the handle is dropped.
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
    /// The system's error if it cannot create another file descriptor or thread.
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

    /// Returns the eventfd by which a peer wakes the engine.
    pub(crate) fn doorbell(&self) -> &Fd {
        &self.0.wake
    }

    /// Returns the links whose peers are alive.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.0.charges().links.iter().filter(|link| !link.is_dead()).cloned().collect()
    }

    /// Adds a link. From now on the engine's thread watches the link's peer.
    pub(crate) fn keep(&self, link: Arc<Link>) {
        let mut charges = self.0.charges();
        charges.links.retain(|link| !link.is_over());
        charges.links.push(link);
        drop(charges);
        self.0.nudge();
    }

    /// Removes a link that the peer no longer knows, and breaks the connections of its VIs.
    pub(crate) fn forget(&self, link: &Arc<Link>) {
        link.died();
        self.0.charges().links.retain(|other| !Arc::ptr_eq(other, link));
        self.0.nudge();
    }

    /// Wakes the engine's thread.
    pub(crate) fn nudge(&self) {
        self.0.nudge();
    }

    /// Registers an object whose [`Starts::start`] the engine calls after [`Engine::want_threads`].
    pub(crate) fn start_for(&self, starts: Weak<dyn Starts>) {
        let mut charges = self.0.charges();
        charges.starts.retain(|other| other.strong_count() > 0);
        charges.starts.push(starts);
    }

    /// Makes the engine call [`Starts::start`] of each registered object from time to time, until no thread is
    /// missing. Takes no lock.
    #[cold]
    pub(crate) fn want_threads(&self) {
        self.0.threads_wanted.store(true, Ordering::SeqCst);
        self.0.nudge();
    }

    /// Like [`Engine::list`], for several objects.
    pub(crate) fn list_all(&self, mut listed: Vec<Weak<dyn Listed>>) {
        if !listed.is_empty() {
            self.0.charges().listed.append(&mut listed);
            self.0.nudge();
        }
    }

    /// Lists an object. The engine calls the object's `tick` from time to time, until `tick` returns false.
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
            // ppoll ignores negative file descriptors. The poll of the socket reports only that the peer has closed
            // its end. Other code receives the socket's messages.
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
            // The thread that wrote to the eventfd has set a VI's bit. Recompute the summaries, in case another
            // process has overwritten them.
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

/// Announces to the peers that the engine will sleep. Returns false if a ready list already has an event.
fn about_to_sleep(links: &[Arc<Link>]) -> bool {
    for (link, side) in sides(links) {
        link.segment.ready_list(side, ENGINE).going_to_sleep();
    }
    !sides(links).any(|(link, side)| link.segment.ready_list(side, ENGINE).has_events())
}

/// Starts the missing threads. Returns true if threads are still missing.
fn start_threads(shared: &Shared) -> bool {
    if !shared.threads_wanted.swap(false, Ordering::SeqCst) {
        return false;
    }
    // Release the lock of `charges` first: if an object's last reference is dropped here, its drop may take this
    // lock.
    let starts = shared.charges().starts.clone();
    let waiting = starts.iter().filter_map(Weak::upgrade).filter(|one| !one.start()).count() > 0;
    if waiting {
        shared.threads_wanted.store(true, Ordering::SeqCst);
    }
    waiting
}

/// Looks at the listed objects and starts missing threads. Returns the time until the next look.
fn look_after(shared: &Shared, tick: Option<u64>) -> Option<u64> {
    let starting = start_threads(shared).then_some(TICK_LAST);
    let listed = look_at_listed(shared, tick);
    listed.or(starting)
}

/// Looks at the listed objects. Returns the time until the next look.
fn look_at_listed(shared: &Shared, tick: Option<u64>) -> Option<u64> {
    // Take the list and release the lock of `charges`, because an object may list itself again in `tick`.
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
