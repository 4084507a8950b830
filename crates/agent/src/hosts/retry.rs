//! When an agent tries to connect to another one: at once, then after waits that double.

/// The first wait, and the longest (nanoseconds).
const FIRST_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 32_000_000_000;

/// When the next try is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    due: u64,
    wait: u64,
}

impl Retry {
    /// At once.
    pub(super) fn at_once() -> Retry {
        Retry { due: 0, wait: FIRST_NS }
    }

    /// When it is due (nanoseconds of the monotonic clock).
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Whether it is due. One that nearly is goes along: agents that try to reach many hosts which are not there so wake for
    /// all of them together.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.due <= now.saturating_add(self.wait / 16)
    }

    /// A try is made.
    pub(super) fn tried(&mut self, now: u64) {
        self.due = now.saturating_add(self.wait);
        self.wait = (2 * self.wait).min(LONGEST_NS);
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
