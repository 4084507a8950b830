//! The background thread. When a timer fires, the thread sends combined bytes (the papers' software timer). The thread
//! also finishes streams that their programs have closed (the papers' close thread). The thread sleeps while there is
//! no such work.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

/// Time between checks of closed streams: the first, and the longest.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LAST: Duration = Duration::from_millis(10);

/// The operations of a stream that the thread uses.
pub(crate) trait Tended: Send + Sync {
    /// Continues to close a stream that its program has dropped. Returns true when no work is left.
    fn closed(&self) -> bool;

    /// Runs when the timer fires. Returns when to fire next.
    fn timer(&self) -> Option<Instant>;
}

pub(crate) struct Background {
    state: Arc<State>,
    threaded: bool,
}

struct State {
    work: Mutex<Work>,
    told: Condvar,
}

struct Work {
    /// Streams that their programs have closed and that are not finished.
    closed: Vec<Arc<dyn Tended>>,
    timers: BTreeMap<(Instant, u64), Weak<dyn Tended>>,
    last: u64,
    running: bool,
    stop: bool,
    /// Set once the program has dropped a stepped stack, so that no thread calls `step` any more.
    left: bool,
}

impl Background {
    /// Creates a state with a thread, which starts when it is first needed.
    pub(crate) fn threaded() -> Background {
        Background::new(true)
    }

    /// Creates a state without a thread, for a program that calls [`Background::step`].
    pub(crate) fn stepped() -> Background {
        Background::new(false)
    }

    fn new(threaded: bool) -> Background {
        let work = Work {
            closed: Vec::new(),
            timers: BTreeMap::new(),
            last: 0,
            running: false,
            stop: false,
            left: false,
        };
        let state = Arc::new(State { work: Mutex::new(work), told: Condvar::new() });
        Background { state, threaded }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.state.told.notify_all();
    }

    /// Sets a timer. Returns false if the thread that would run it cannot be started.
    pub(crate) fn wake_at(&self, at: Instant, stream: Weak<dyn Tended>) -> bool {
        if !self.threaded {
            return true;
        }
        let mut work = self.state.lock();
        if !self.state.runs(&mut work) {
            return false;
        }
        let first = work.timers.first_key_value().is_none_or(|((next, _), _)| *next > at);
        work.last += 1;
        let key = (at, work.last);
        work.timers.insert(key, stream);
        drop(work);
        if first {
            self.state.told.notify_all();
        }
        true
    }

    /// Continues to close a stream in the background. Drops the stream if no thread can run and no program will call
    /// `step`.
    pub(crate) fn finish(&self, stream: Arc<dyn Tended>) {
        let mut work = self.state.lock();
        let goes_on = if self.threaded { self.state.runs(&mut work) } else { !work.left };
        if goes_on {
            work.closed.push(stream);
            self.state.told.notify_all();
        }
    }

    /// Notes that the program has dropped the stack. For a stepped stack this drops all closed streams. The streams and
    /// the stack refer to each other, so otherwise neither would be freed.
    pub(crate) fn leave(&self) {
        if self.threaded {
            return;
        }
        let mut work = self.state.lock();
        work.left = true;
        let closed = core::mem::take(&mut work.closed);
        drop(work);
        // Drop the streams without the lock, because dropping the last stream of a stack calls `stop`.
        drop(closed);
    }

    /// Checks each closed stream once. Returns the number of unfinished streams.
    pub(crate) fn step(&self) -> usize {
        self.state.look_at_closed()
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread if needed. Returns true if it runs.
    fn runs(self: &Arc<Self>, work: &mut Work) -> bool {
        if !work.running {
            let state = self.clone();
            let thread = thread::Builder::new().name("sovia-stream".into());
            work.running = thread.spawn(move || state.run()).is_ok();
        }
        work.running
    }

    fn run(&self) {
        let mut pause = LOOK_FIRST;
        loop {
            let left = self.look_at_closed();
            pause = if left > 0 { (pause * 2).min(LOOK_LAST) } else { LOOK_FIRST };
            self.run_timers();
            let work = self.lock();
            if work.stop {
                return;
            }
            let now = Instant::now();
            let next = work.timers.first_key_value().map(|((at, _), _)| *at);
            let next = next.map(|at| at.saturating_duration_since(now));
            let pause = (!work.closed.is_empty()).then_some(pause);
            match next.into_iter().chain(pause).min() {
                Some(pause) => drop(self.told.wait_timeout(work, pause)),
                None => drop(self.told.wait(work)),
            }
        }
    }

    fn look_at_closed(&self) -> usize {
        // Call streams without the lock: a stream may set a timer, and dropping the last stream of a stack calls
        // `stop`.
        let mut all = core::mem::take(&mut self.lock().closed);
        all.retain(|stream| !stream.closed());
        let mut work = self.lock();
        work.closed.append(&mut all);
        work.closed.len()
    }

    fn run_timers(&self) {
        loop {
            let mut work = self.lock();
            let Some(first) = work.timers.first_entry() else { return };
            if first.key().0 > Instant::now() {
                return;
            }
            let stream = first.remove();
            drop(work);
            let Some(stream) = stream.upgrade() else { continue };
            if let Some(again) = stream.timer() {
                let mut work = self.lock();
                work.last += 1;
                let key = (again, work.last);
                work.timers.insert(key, Arc::downgrade(&stream));
            }
        }
    }
}
