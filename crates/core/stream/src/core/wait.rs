//! Decides which threads wait, and which of them processes arrivals meanwhile.

use super::{Core, Held, Inner};
use core::time::Duration;
use sovia_proto::configuration::Handling;
use std::sync::PoisonError;
use std::time::Instant;
use via::error::WaitError;
use via::{Nic, Vi};

/// Longest time that a thread waits at a VI before it checks for changes by other threads. A VI reports only arrivals.
const NAP: Duration = Duration::from_millis(200);

/// Time that a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The call must not wait.
    None,
    /// The call may wait until this time.
    Until(Instant),
    /// The call may wait without limit.
    Endless,
}

impl Patience {
    /// Returns the patience of a call with this timeout that begins now.
    pub(crate) fn of(timeout: Option<Duration>) -> Patience {
        let until = timeout.map(|timeout| Instant::now().checked_add(timeout));
        until.flatten().map_or(Patience::Endless, Patience::Until)
    }

    /// Returns how long the call may sleep next, at most a nap; `None` if its time is over.
    fn nap(self) -> Option<Duration> {
        match self {
            Patience::None => None,
            Patience::Endless => Some(NAP),
            Patience::Until(until) => {
                let left = until.saturating_duration_since(Instant::now());
                (!left.is_zero()).then_some(left.min(NAP))
            }
        }
    }
}

impl<N: Nic + 'static> Core<N> {
    /// Waits until a packet has arrived, or may have arrived; `None` if the time is over.
    ///
    /// With [`Handling::Single`], the first waiting thread waits at the VI and processes arrivals. Other threads wait
    /// for its notification. All threads wait for a notification if a NIC's thread or a handler's thread processes
    /// arrivals.
    pub(super) fn await_news<'c>(
        &'c self,
        mut held: Held<'c, N>,
        patience: Patience,
    ) -> Option<Held<'c, N>> {
        let nap = patience.nap()?;
        if self.configuration.handling != Handling::Single || held.driving {
            return Some(self.be_told(held, nap));
        }
        held.driving = true;
        drop(held);
        let waited = self.vi.recv_wait(Some(nap));
        let mut held = self.lock();
        held.driving = false;
        self.waited(&mut held, waited);
        // One of the waiting threads takes over at the VI if this thread does not continue.
        self.tell(&held);
        Some(held)
    }

    fn waited(&self, inner: &mut Inner<N>, waited: Result<via::Completion, WaitError>) {
        match waited {
            // The next poll finds further arrivals.
            Ok(completion) => self.received(inner, completion),
            Err(WaitError::Empty) => self.check_lost(inner),
            Err(WaitError::Timeout) => {}
        }
        self.post_due(inner);
    }

    /// Waits for a notification by another thread.
    fn be_told<'c>(&'c self, mut held: Held<'c, N>, nap: Duration) -> Held<'c, N> {
        held.waiters += 1;
        let seen = self.news().count;
        drop(held);
        let news = self.news();
        let slept = self.told.wait_timeout_while(news, nap, |news| news.count == seen);
        drop(slept.unwrap_or_else(PoisonError::into_inner));
        let mut held = self.lock();
        held.waiters -= 1;
        held
    }

    /// Waits until a send has completed, or may have; `None` if the time is over.
    pub(super) fn await_sent<'c>(
        &'c self,
        held: Held<'c, N>,
        patience: Patience,
    ) -> Option<Held<'c, N>> {
        let nap = patience.nap()?;
        drop(held);
        let waited = self.vi.send_wait(Some(nap));
        let mut held = self.lock();
        if let Ok(completion) = waited {
            self.sent(&mut held, completion);
        }
        Some(held)
    }
}
