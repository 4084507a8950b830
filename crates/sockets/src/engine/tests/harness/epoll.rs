//! Epoll instances of an end's process.

use super::{CALL_NS, End, Engines};
use crate::epoll::KernelSleep;
use crate::{Outcome, epoll, epoll_sets, ops, table};
use core::sync::atomic::Ordering;
use sovia_sys::{Fd, poll};
use std::sync::Arc;

/// An epoll instance of one process.
#[derive(Debug)]
pub(crate) struct Epoll {
    pub(super) engines: Arc<Engines>,
    pub(super) side: usize,
    pub(super) epfd: Fd,
}

impl Epoll {
    fn index(&self) -> u32 {
        match self.run(|| table::get(self.epfd.raw())) {
            table::Entry::Epoll(index) => index,
            _ => panic!("not followed"),
        }
    }

    fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.engines.both[self.side].run(f)
    }

    /// `epoll_ctl`.
    pub(crate) fn control(&self, op: i32, fd: i32, events: i32, data: u64) -> Outcome {
        let events = events as u32;
        let epfd = self.epfd.raw();
        let kernel =
            || poll::epoll_ctl(epfd, op, fd, events, data).map(|()| 0).map_err(crate::errno);
        self.run(|| epoll::control(self.index(), op, fd, Some((events, data)), kernel))
    }

    /// Adds an end, with its number as the event's data.
    pub(crate) fn add(&self, end: &End, events: i32) {
        self.control(libc::EPOLL_CTL_ADD, end.fd(), events, end.fd() as u64).unwrap();
    }

    pub(crate) fn modify(&self, end: &End, events: i32) {
        self.control(libc::EPOLL_CTL_MOD, end.fd(), events, end.fd() as u64).unwrap();
    }

    pub(crate) fn remove(&self, end: &End) -> Outcome {
        self.control(libc::EPOLL_CTL_DEL, end.fd(), 0, 0)
    }

    /// `epoll_wait` for up to `most` events: masks and data.
    pub(crate) fn wait_for(&self, most: usize, timeout: Option<u64>) -> Vec<(i32, u64)> {
        let mut out = vec![epoll::Event { events: 0, u64: 0 }; most];
        let n = self.run(|| {
            let index = self.index();
            let is_kernels = !epoll::is_ours(index);
            let sleeps = timeout != Some(0);
            let sleep = if is_kernels && sleeps { KernelSleep::begin(index) } else { None };
            if is_kernels && (sleep.is_some() || !sleeps) {
                let n = poll::epoll_wait(self.epfd.raw(), &mut out, timeout, None).unwrap();
                if let Some(sleep) = sleep {
                    sleep.end();
                }
                let kept = epoll::filter(&mut out[..n], None);
                if kept > 0 || !sleeps {
                    return kept;
                }
            }
            epoll::wait(index, &mut out, timeout, None).unwrap()
        });
        out[..n].iter().map(|event| ({ event.events } as i32, { event.u64 })).collect()
    }

    /// The events that are there now.
    pub(crate) fn now(&self) -> Vec<(i32, u64)> {
        self.wait_for(8, Some(0))
    }

    /// The mask of the only connection in the instance; 0 if it is not ready.
    pub(crate) fn mask(&self) -> i32 {
        let events = self.now();
        assert!(events.len() <= 1, "{events:?}");
        events.first().map_or(0, |&(mask, _)| mask)
    }

    /// Loses the marks of peers, which come later than what they are for.
    pub(crate) fn lose_marks(&self) {
        self.run(|| {
            let set = epoll_sets::get(self.index()).unwrap();
            set.with(|inner| {
                inner
                    .watched_pairs
                    .iter()
                    .for_each(|watched_pair| watched_pair.ready_list().drain(|_| ()))
            });
        });
    }

    /// Threads that sleep in the instance for what is on VIs.
    pub(crate) fn sleepers(&self) -> u32 {
        self.run(|| epoll_sets::get(self.index()).unwrap().asleep.load(Ordering::Relaxed))
    }

    /// Waits for events; none after [`CALL_NS`].
    pub(crate) fn wait(&self) -> Vec<(i32, u64)> {
        self.wait_for(8, Some(CALL_NS))
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        self.run(|| ops::close(self.epfd.raw()));
    }
}
