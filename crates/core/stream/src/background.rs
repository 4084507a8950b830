//! The thread that does what no call waits for: it sends combined bytes off when their time is over
//! (the papers' software timer), and goes on with streams that their programs have closed (the
//! papers' close thread). It sleeps while there is neither.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

/// How often closed streams are looked at, at first and later.
const LOOK_FIRST: Duration = Duration::from_micros(100);
const LOOK_LAST: Duration = Duration::from_millis(10);

/// A stream, as the thread knows it.
pub(crate) trait Tended: Send + Sync {
    /// Goes on closing for a program that has gone: true when nothing is left to do.
    fn closed(&self) -> bool;

    /// The timer has gone off; when it is to go off next.
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
    /// Closed by their programs, and not finished.
    closed: Vec<Arc<dyn Tended>>,
    timers: BTreeMap<(Instant, u64), Weak<dyn Tended>>,
    last: u64,
    running: bool,
    stop: bool,
    /// No thread will step any more.
    left: bool,
}

impl Background {
    /// With a thread, from the first time on that it is needed.
    pub(crate) fn threaded() -> Background {
        Background::new(true)
    }

    /// Without one: the program steps.
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

    /// Has a timer go off; false where no thread would see to it.
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

    /// Goes on with a closed stream. Where there is no thread or no program that steps, the stream is cut
    /// off here.
    pub(crate) fn finish(&self, stream: Arc<dyn Tended>) {
        let mut work = self.state.lock();
        let goes_on = if self.threaded { self.state.runs(&mut work) } else { !work.left };
        if goes_on {
            work.closed.push(stream);
            self.state.told.notify_all();
        }
    }

    /// The program has let go of the stack. If it was to step, closed streams are cut off: they hold
    /// the stack, and the stack them, so nothing else would ever free either.
    pub(crate) fn leave(&self) {
        if self.threaded {
            return;
        }
        let mut work = self.state.lock();
        work.left = true;
        let closed = core::mem::take(&mut work.closed);
        drop(work);
        // Not under the lock: the last one of a stack ends it.
        drop(closed);
    }

    /// Looks at all closed streams once; how many are not finished.
    pub(crate) fn step(&self) -> usize {
        self.state.look_at_closed()
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the thread runs, which it is made to.
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
        // Not under the lock: a stream may want a timer, and the last one of a stack ends it.
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
