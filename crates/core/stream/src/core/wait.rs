//! Which threads wait for what, and which one handles arrivals meanwhile.

use super::{Core, Held, Inner};
use core::time::Duration;
use sovia_proto::configuration::Handling;
use std::sync::PoisonError;
use std::time::Instant;
use via::error::WaitError;
use via::{Nic, Vi};

/// How long a thread waits at a VI at most before it looks what other threads have done to the
/// stream: a VI tells of arrivals only.
const NAP: Duration = Duration::from_millis(200);

/// How long a call may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until then.
    Until(Instant),
    /// As long as it takes.
    Endless,
}

impl Patience {
    /// That of a call with a timeout that begins now.
    pub(crate) fn of(timeout: Option<Duration>) -> Patience {
        let until = timeout.map(|timeout| Instant::now().checked_add(timeout));
        until.flatten().map_or(Patience::Endless, Patience::Until)
    }

    /// How long it is still good for, at most a nap; `None` if it is over.
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
    /// Waits until something has arrived, or may have; `None` if the patience is over.
    ///
    /// With [`Handling::Single`] the first thread that waits does so at the VI, and handles
    /// arrivals; others, and all threads where the NIC's or a handler's thread handles arrivals, wait to be told.
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
        // One of the waiting threads goes to the VI now, if this thread does not.
        self.tell(&held);
        Some(held)
    }

    fn waited(&self, inner: &mut Inner<N>, waited: Result<via::Completion, WaitError>) {
        match waited {
            // Others that have come are found by the next look.
            Ok(completion) => self.received(inner, completion),
            Err(WaitError::Empty) => self.check_lost(inner),
            Err(WaitError::Timeout) => {}
        }
        self.post_due(inner);
    }

    /// Waits for another thread's news.
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

    /// Waits until a send is done, or may be; `None` if the patience is over.
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
