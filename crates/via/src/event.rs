//! What a NIC tells a program unasked: errors that belong to no call, and callbacks.
//!
//! Both run in one thread of the NIC's, in the order of their events (VIA 1.0: an application is
//! notified by an asynchronous call of a handler that it has registered).

use crate::error::ErrorCode;
use crate::flags::Control;
use crate::queue::Completion;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// What runs, once, when a descriptor of a work queue is done; it gets the descriptor taken.
pub type ViCallback = Box<dyn FnOnce(Completion) + Send>;

/// What is told of errors that belong to no call.
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

/// Something to run.
pub type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread for the argument; how is the provider's to say (which signals it takes, its
/// name).
pub type Spawn = fn(Job) -> std::io::Result<()>;

/// The thread that runs callbacks, in order. Started with the first of them; it ends when this is
/// dropped and what was given is done.
#[derive(Debug)]
pub struct Dispatcher {
    spawn: Spawn,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

impl Dispatcher {
    /// A dispatcher whose thread is started by `spawn`.
    pub fn new(spawn: Spawn) -> Dispatcher {
        Dispatcher { spawn, jobs: Mutex::new(None) }
    }

    /// Runs a job in the thread after all that were given before. Where no thread can be started
    /// it runs here and now: late is worse than never for a program that waits for it, and the
    /// order is kept, because then nothing is queued.
    pub fn run(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            let (sender, receiver) = mpsc::channel::<Job>();
            let work = move || receiver.into_iter().for_each(|job| job());
            if (self.spawn)(Box::new(work)).is_ok() {
                *jobs = Some(sender);
            }
        }
        match &*jobs {
            Some(sender) => {
                let _ = sender.send(job);
            }
            None => {
                drop(jobs);
                job();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn without_a_thread_a_job_runs_at_once() {
        let dispatcher = Dispatcher::new(|_| Err(std::io::Error::other("none")));
        let (sender, receiver) = mpsc::channel();
        dispatcher.run(Box::new(move || sender.send(1).unwrap()));
        assert_eq!(receiver.try_recv(), Ok(1));
    }
}
