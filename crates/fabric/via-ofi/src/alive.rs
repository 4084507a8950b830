//! Decides when to greet peers.
//!
//! A reliable endpoint notices a lost peer only when it sends to the peer. So a NIC with silent connections sends a
//! greeting now and then. The provider's error decides that a peer is lost, and never a time-out.

use core::time::Duration;
use sovia_link::Time;

/// Time between two greetings.
const EVERY: Duration = Duration::from_secs(1);

/// Time of the next greetings.
#[derive(Debug, Default)]
pub(crate) struct Alive(Option<Time>);

impl Alive {
    /// Returns the time of the next greetings, if there is one.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0
    }

    /// Returns true if the NIC must greet its peers now. Schedules the next greetings.
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
