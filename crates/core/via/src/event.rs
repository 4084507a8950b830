//! What a NIC tells a program unasked: errors that belong to no call, and callbacks.
//!
//! Both run in one thread of the NIC's, in the order of their events (VIA 1.0: an application is
//! notified by an asynchronous call of a handler that it has registered).

use crate::error::ErrorCode;
use crate::flags::Control;
use crate::queue::Completion;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// What runs, once, when a descriptor of a work queue is done; it gets the descriptor taken.
pub type ViCallback = Box<dyn FnOnce(Completion) + Send>;

/// The function that is called for errors which belong to no call.
pub type ErrorHandler = Arc<dyn Fn(&AsyncError) + Send + Sync>;

/// What an error has struck (`VIP_RESOURCE_CODE`), with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Resource {
    /// The NIC.
    Nic = 0,
    /// A VI.
    Vi = 1,
    /// A completion queue.
    Cq = 2,
    /// A descriptor.
    Descriptor = 3,
}

/// An error that belongs to no call (`VIP_ERROR_DESCRIPTOR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncError {
    /// The VI, by the context it was created with.
    pub vi: Option<u64>,
    /// The completion queue, by the context it was created with.
    pub cq: Option<u64>,
    /// The address of the descriptor.
    pub descriptor: Option<u64>,
    /// The operation that went wrong.
    pub operation: Control,
    /// What it has struck.
    pub resource: Resource,
    /// What happened.
    pub code: ErrorCode,
}

impl AsyncError {
    /// An error of a VI as a whole.
    pub fn of_vi(vi: u64, code: ErrorCode) -> AsyncError {
        AsyncError {
            vi: Some(vi),
            cq: None,
            descriptor: None,
            operation: Control::OP_SENDRECV,
            resource: Resource::Vi,
            code,
        }
    }
}

/// The error handler that a NIC has at the moment.
#[derive(Default)]
pub struct CurrentHandler(Arc<Mutex<Option<ErrorHandler>>>);

impl core::fmt::Debug for CurrentHandler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("CurrentHandler").field(&lock(&self.0).is_some()).finish()
    }
}

impl CurrentHandler {
    /// Sets or removes the handler.
    pub fn set(&self, handler: Option<ErrorHandler>) {
        let old = core::mem::replace(&mut *lock(&self.0), handler);
        // The program's own code may run in its destructor, so not under the lock.
        drop(old);
    }

    /// Returns the call that hands an error to the handler, for a [`Dispatcher`]; `None` where no handler is set.
    ///
    /// The call does nothing if another handler is set by then, or none. It keeps neither the NIC nor this value alive.
    pub fn call_for(&self, error: AsyncError) -> Option<Job> {
        let handler = lock(&self.0).clone()?;
        let current = self.0.clone();
        Some(Box::new(move || {
            if lock(&current).as_ref().is_some_and(|now| Arc::ptr_eq(now, &handler)) {
                handler(&error);
            }
        }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something to run.
pub type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread for the argument; how is the provider's to say (which signals it takes, its
/// name).
pub type Spawn = fn(Job) -> std::io::Result<()>;

/// The thread that runs callbacks, in order. Started with the first of them; it ends when this is
/// dropped and what was given is done.
///
/// Where it cannot be started, what is given *waits*: until it can be ([`Dispatcher::retry`]), or for
/// a thread of the program's that comes by and holds nothing ([`Dispatcher::run_waiting`]). It is not
/// run where it is given, because that is often under a lock that it would want.
#[derive(Debug)]
pub struct Dispatcher {
    spawn: Spawn,
    /// Whether anything waits, to be looked at without the lock.
    waits: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// To the thread, once it is there.
    thread: Option<mpsc::Sender<Job>>,
    /// What waits; nothing if there is a thread.
    waiting: VecDeque<Job>,
    /// A thread of the program's is at it.
    running: bool,
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} waiting", self.waiting.len())
    }
}

impl Dispatcher {
    /// A dispatcher whose thread is started by `spawn`.
    pub fn new(spawn: Spawn) -> Dispatcher {
        Dispatcher { spawn, waits: AtomicBool::new(false), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Starts the thread, if that is possible and does not change the order.
    fn start(&self, state: &mut State) {
        if state.thread.is_some() || state.running {
            return;
        }
        let (sender, receiver) = mpsc::channel::<Job>();
        let work = move || receiver.into_iter().for_each(|job| job());
        if (self.spawn)(Box::new(work)).is_ok() {
            for job in state.waiting.drain(..) {
                let _ = sender.send(job);
            }
            state.thread = Some(sender);
            self.waits.store(false, Ordering::Relaxed);
        }
    }

    /// Runs a job in the thread after all that were given before; false if it waits for a thread.
    pub fn run(&self, job: Job) -> bool {
        let mut state = self.state();
        self.start(&mut state);
        match &state.thread {
            Some(thread) => {
                let _ = thread.send(job);
                true
            }
            None => {
                state.waiting.push_back(job);
                self.waits.store(true, Ordering::Relaxed);
                false
            }
        }
    }

    /// Whether something waits for a thread.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Starts the thread for what waits, if it can be started by now; false if it still waits.
    pub fn retry(&self) -> bool {
        if self.waits() {
            self.start(&mut self.state());
        }
        !self.waits()
    }

    /// Runs what waits in this thread, which holds nothing that a job could need. While another
    /// one is at it, or this one comes in again out of a job, it is left to that.
    pub fn run_waiting(&self) {
        if self.retry() {
            return;
        }
        let mut state = self.state();
        if core::mem::replace(&mut state.running, true) {
            return;
        }
        while let Some(job) = state.waiting.pop_front() {
            drop(state);
            job();
            state = self.state();
        }
        state.running = false;
        self.waits.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    /// A handler that adds up the numbers of the VIs in its errors.
    fn adding(sum: &Arc<AtomicU64>) -> Option<ErrorHandler> {
        let sum = sum.clone();
        Some(Arc::new(move |error| {
            sum.fetch_add(error.vi.unwrap(), Ordering::Relaxed);
        }))
    }

    #[test]
    fn a_handler_gets_the_errors_between_its_setting_and_its_removal() {
        let (current, first, second) = (CurrentHandler::default(), Arc::default(), Arc::default());
        let call_for = |vi| current.call_for(AsyncError::of_vi(vi, ErrorCode::PostDesc));
        assert!(call_for(1).is_none());
        current.set(adding(&first));
        let (told, late, replaced) =
            (call_for(10).unwrap(), call_for(100).unwrap(), call_for(1000).unwrap());
        told();
        current.set(None);
        assert!(call_for(2).is_none());
        late();
        current.set(adding(&second));
        replaced();
        call_for(20).unwrap()();
        assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (10, 20));
    }

    #[test]
    fn a_call_outlives_its_nic() {
        let (current, sum) = (CurrentHandler::default(), Arc::default());
        current.set(adding(&sum));
        let call = current.call_for(AsyncError::of_vi(3, ErrorCode::PostDesc)).unwrap();
        drop(current);
        call();
        assert_eq!(sum.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn jobs_run_in_order_in_a_thread_of_their_own() {
        let dispatcher = Dispatcher::new(|job| std::thread::Builder::new().spawn(job).map(drop));
        let (sender, receiver) = mpsc::channel();
        for i in 0..100 {
            let sender = sender.clone();
            dispatcher.run(Box::new(move || {
                let _ = sender.send((i, std::thread::current().id()));
            }));
        }
        let all: Vec<_> = receiver.iter().take(100).collect();
        assert!(all.iter().enumerate().all(|(i, &(n, thread))| n == i
            && thread == all[0].1
            && thread != std::thread::current().id()));
    }

    fn no_thread() -> Dispatcher {
        Dispatcher::new(|_| Err(std::io::Error::other("none")))
    }

    #[test]
    fn without_a_thread_a_job_waits_until_run_waiting() {
        let dispatcher = no_thread();
        let (sender, receiver) = mpsc::channel();
        for i in 0..3 {
            let sender = sender.clone();
            assert!(!dispatcher.run(Box::new(move || sender.send(i).unwrap())));
        }
        assert!(!dispatcher.retry() && dispatcher.waits() && receiver.try_recv().is_err());
        dispatcher.run_waiting();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!dispatcher.waits());
    }

    /// One after the other, also if a job gives others, and comes by again.
    #[test]
    fn a_job_that_waited_may_come_in_again() {
        let dispatcher = Arc::new(no_thread());
        let (sender, receiver) = mpsc::channel();
        let (own, tell) = (dispatcher.clone(), sender.clone());
        dispatcher.run(Box::new(move || {
            let then = tell.clone();
            own.run(Box::new(move || then.send("then").unwrap()));
            own.run_waiting();
            tell.send("first").unwrap();
        }));
        dispatcher.run_waiting();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["first", "then"]);
        assert!(!dispatcher.waits());
    }

    #[test]
    fn a_thread_that_comes_late_takes_what_waits() {
        static STARTS: AtomicBool = AtomicBool::new(false);
        let dispatcher = Dispatcher::new(|job| match STARTS.load(Ordering::SeqCst) {
            true => std::thread::Builder::new().spawn(job).map(drop),
            false => Err(std::io::Error::other("not yet")),
        });
        let (sender, receiver) = mpsc::channel();
        let give = |i: usize| {
            let sender = sender.clone();
            let thread = || std::thread::current().id();
            dispatcher.run(Box::new(move || sender.send((i, thread())).unwrap()))
        };
        assert!(!give(0) && !give(1));
        STARTS.store(true, Ordering::SeqCst);
        assert!(dispatcher.retry());
        assert!(give(2));
        let all: Vec<_> = receiver.iter().take(3).collect();
        assert!(all.iter().enumerate().all(|(i, &(n, _))| n == i));
        assert!(all.iter().all(|&(_, thread)| thread != std::thread::current().id()));
    }
}
