//! Times at which an agent tries to connect to another: at once, then after delays that double.

/// First and longest delay, in nanoseconds.
const FIRST_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 32_000_000_000;

/// Time of the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    due: u64,
    wait: u64,
    /// Earliest time of the next try after a success.
    soonest: u64,
}

impl Retry {
    /// Makes a retry that is due at once.
    pub(crate) fn at_once() -> Retry {
        Retry { due: 0, wait: FIRST_NS, soonest: 0 }
    }

    /// Returns when the next try is due, in nanoseconds of the monotonic clock.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Returns true if a try is due, or nearly due. So an agent that tries to reach many hosts in vain wakes once for
    /// several of them.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        self.due <= now.saturating_add(self.wait / 16)
    }

    /// Records a try and sets the time of the next one.
    pub(crate) fn tried(&mut self, now: u64) {
        self.due = now.saturating_add(self.wait);
        self.soonest = now.saturating_add(FIRST_NS);
        self.wait = (2 * self.wait).min(LONGEST_NS);
    }

    /// Records that the last try has succeeded. When that conversation ends, the next try is due at once, but not
    /// within `FIRST_NS` of the last try. Otherwise agents that have the same key by mistake would replace each other
    /// without end.
    pub(crate) fn succeeded(&mut self) {
        (self.due, self.wait) = (self.soonest, FIRST_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut retry = Retry::at_once();
        let (mut now, mut waits) = (5, Vec::new());
        for _ in 0..8 {
            assert!(retry.is_due(now));
            retry.tried(now);
            waits.push((retry.due() - now) / FIRST_NS);
            now = retry.due();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 32, 32]);
    }

    #[test]
    fn after_a_conversation_the_next_try_is_due_at_once_but_not_sooner_than_the_first_wait() {
        let mut retry = Retry::at_once();
        retry.tried(0);
        retry.tried(FIRST_NS);
        retry.succeeded();
        assert_eq!(retry.due(), 2 * FIRST_NS);
        assert!(!retry.is_due(FIRST_NS + FIRST_NS / 2) && retry.is_due(9 * FIRST_NS));
        retry.tried(9 * FIRST_NS);
        assert_eq!(retry.due(), 10 * FIRST_NS, "waits begin anew");
    }

    #[test]
    fn tries_of_many_that_began_one_after_the_other_are_made_together() {
        let mut retries: Vec<_> = (0..20).map(|_| Retry::at_once()).collect();
        let mut now = 0;
        for retry in &mut retries {
            now += 1_000_000;
            retry.tried(now);
        }
        for _ in 0..10 {
            now = retries.iter().map(Retry::due).min().unwrap();
            for retry in &mut retries {
                assert!(retry.is_due(now));
                retry.tried(now);
            }
        }
    }
}
