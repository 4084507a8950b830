//! When peers are greeted.
//!
//! A reliable endpoint finds out that a peer is gone when it sends there. A NIC with connections that are silent sends a greeting now
//! and then; what decides is the provider's error, not how long anything took.

use core::time::Duration;
use sovia_link::Time;

/// Between two greetings.
const EVERY: Duration = Duration::from_secs(1);

/// When the next greetings are sent.
#[derive(Debug, Default)]
pub(crate) struct Alive(Option<Time>);

impl Alive {
    /// When there is something to do.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0
    }

    /// Whether peers are to be greeted now.
    pub(crate) fn is_due(&mut self, has_peers: bool, now: Time) -> bool {
        let was = self.0.filter(|_| has_peers);
        let is_due = was.is_some_and(|at| at <= now);
        self.0 = match was {
            Some(at) if !is_due => Some(at),
            _ => has_peers.then(|| now.after(EVERY)),
        };
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_greeted_once_a_second_while_there_are_any() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut alive = Alive::default();
        assert!(!alive.is_due(false, at(0)) && alive.next().is_none());
        assert!(!alive.is_due(true, at(0)) && alive.next() == Some(at(1000)));
        assert!(!alive.is_due(true, at(999)) && alive.is_due(true, at(1001)));
        assert_eq!(alive.next(), Some(at(2001)));
        assert!(!alive.is_due(false, at(3000)) && alive.next().is_none());
    }
}
