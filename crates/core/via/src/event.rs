//! Asynchronous notifications of a NIC: errors that belong to no call, and callbacks.
//!
//! One thread of the NIC runs both, in the order of their events. In VIA 1.0 the NIC notifies an application by an
//! asynchronous call of a registered handler.

use crate::error::ErrorCode;
use crate::flags::Control;
use crate::queue::Completion;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

/// A callback that runs once when a descriptor of a work queue is done. The callback receives the completion, already
/// taken from the queue.
pub type ViCallback = Box<dyn FnOnce(Completion) + Send>;

/// A function for errors that belong to no call.
pub type ErrorHandler = Arc<dyn Fn(&AsyncError) + Send + Sync>;

/// The kind of object that an error concerns (`VIP_RESOURCE_CODE`), with VIPL's values.
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
    /// Context of the VI, given when the VI was created.
    pub vi: Option<u64>,
    /// Context of the completion queue, given when the queue was created.
    pub cq: Option<u64>,
    /// Address of the descriptor.
    pub descriptor: Option<u64>,
    /// The operation that failed.
    pub operation: Control,
    /// The kind of object that the error concerns.
    pub resource: Resource,
    /// The error.
    pub code: ErrorCode,
}

impl AsyncError {
    /// Creates an error of a whole VI.
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

/// The current error handler of a NIC.
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
        // Drop the handler without the lock: its destructor may run the program's code.
        drop(old);
    }

    /// Returns the job for a [`Dispatcher`] that passes `error` to the handler; `None` if no handler is set.
    ///
    /// The job does nothing if the handler has been replaced or removed when the job runs. The job keeps neither the
    /// NIC nor this value alive.
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

/// A function that a [`Dispatcher`] runs once.
pub type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread that runs the job. The provider chooses the thread's name and signal mask.
pub type Spawn = fn(Job) -> std::io::Result<()>;

/// Runs callbacks in order in a thread of its own. The first callback starts the thread. The thread ends after the
/// dispatcher is dropped and all jobs are done.
///
/// If the thread cannot be started, jobs *wait*. [`Dispatcher::retry`] tries to start the thread again.
/// [`Dispatcher::run_waiting`] runs the jobs in a program's thread that holds no locks. [`Dispatcher::run`] does not
/// run a job itself, because its caller often holds a lock that the job needs.
#[derive(Debug)]
pub struct Dispatcher {
    spawn: Spawn,
    /// Set while jobs wait. Readable without the lock.
    waits: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Channel to the thread, once the thread exists.
    thread: Option<mpsc::Sender<Job>>,
    /// Waiting jobs; empty once the thread exists.
    waiting: VecDeque<Job>,
    /// Set while a program's thread runs waiting jobs.
    running: bool,
}

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} waiting", self.waiting.len())
    }
}

impl Dispatcher {
    /// Creates a dispatcher that starts its thread by `spawn`.
    pub fn new(spawn: Spawn) -> Dispatcher {
        Dispatcher { spawn, waits: AtomicBool::new(false), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Starts the thread, if this is possible and keeps the jobs in order.
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

    /// Queues a job for the thread. Returns false if the job waits because there is no thread.
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

    /// Returns true while jobs wait for a thread.
    #[inline]
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Tries to start the thread for waiting jobs. Returns false if they still wait.
    pub fn retry(&self) -> bool {
        if self.waits() {
            self.start(&mut self.state());
        }
        !self.waits()
    }

    /// Runs waiting jobs in the calling thread, which must hold no lock that a job could need. Returns at once if
    /// another thread, or an outer call in this thread, is running the jobs.
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

    /// Returns a handler that adds up the VI contexts of its errors.
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

    /// Jobs run one after the other, even if a job queues another one and calls `run_waiting`.
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
