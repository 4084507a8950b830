//! Decides which thread sleeps on the channel that reports completions: the NIC's thread, or a thread of the program
//! ([`CompletionQueue::watch`](via::CompletionQueue::watch)).
//!
//! A program's watching thread usually watches again as soon as it has passed on the events. So the NIC's thread leaves
//! the channel to the program from the first watch on, and checks now and then whether the program still watches. If
//! not, the NIC's thread takes the channel back. The NIC's thread also takes the channel back at once when a thread
//! goes to sleep that only the NIC's thread wakes.

/// Action of the NIC's thread on the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// Sleeps on the channel.
    Sleeps,
    /// Sleeps on the channel, and first arms all VIs: a watching program may have left them unarmed.
    Arms,
    /// Leaves the channel to the program, and checks later whether the program still watches.
    Looks,
    /// Leaves the channel to a thread that has slept since the last check. That thread notifies the NIC's thread when
    /// it wakes.
    Rests,
}

/// State of the watching. Methods that return a bool return true if the caller must wake the NIC's thread.
#[derive(Debug)]
pub(crate) struct Watching {
    own: Own,
    /// True while a thread of the program sleeps on the channel.
    is_in: bool,
    /// True if a watch has begun since the NIC thread's last check.
    is_new: bool,
    /// Number of threads that sleep until the NIC's thread has an event for them.
    sleepers: u32,
    /// Queue that was watched last. Its VIs may be unarmed.
    left: Option<usize>,
}

/// Actions of the caller when a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The caller must wake the NIC's thread.
    pub(crate) wakes: bool,
    /// The caller must arm all VIs, because another queue was watched before.
    pub(crate) arms: bool,
}

impl Watching {
    pub(crate) fn new() -> Watching {
        Watching { own: Own::Sleeps, is_in: false, is_new: false, sleepers: 0, left: None }
    }

    /// Records that a thread of the program goes to sleep on the channel, for `queue`. Returns `None` if it may not.
    pub(crate) fn begin(&mut self, queue: usize) -> Option<Begins> {
        if self.is_in || self.sleepers > 0 {
            return None;
        }
        (self.is_in, self.is_new) = (true, true);
        let had_channel = matches!(self.own, Own::Sleeps | Own::Arms);
        if had_channel {
            self.own = Own::Looks;
        }
        let arms = self.left.is_some_and(|left| left != queue);
        self.left = Some(queue);
        Some(Begins { wakes: had_channel, arms })
    }

    /// Records that the watching thread is awake. It may have left VIs unarmed.
    pub(crate) fn end(&mut self) -> bool {
        self.is_in = false;
        let (own, wakes) = match self.own {
            Own::Looks => (Own::Looks, false),
            Own::Rests => (Own::Looks, true),
            // Meanwhile another thread went to sleep, and so the NIC's thread got the channel.
            Own::Sleeps | Own::Arms => (Own::Arms, true),
        };
        self.own = own;
        wakes
    }

    /// Records that a thread goes to sleep until the NIC's thread has an event for it.
    pub(crate) fn sleeper(&mut self) -> bool {
        self.sleepers += 1;
        let had_channel = matches!(self.own, Own::Sleeps | Own::Arms);
        if !had_channel {
            self.own = Own::Arms;
        }
        !had_channel
    }

    /// Records that such a thread is awake.
    pub(crate) fn no_sleeper(&mut self) {
        self.sleepers -= 1;
    }

    /// Returns the next action of the NIC's thread. `is_due` is true if the time for a check has come.
    pub(crate) fn own(&mut self, is_due: bool) -> Own {
        if self.own == Own::Looks && is_due && !core::mem::take(&mut self.is_new) {
            self.own = if self.is_in { Own::Rests } else { Own::Arms };
        }
        let own = self.own;
        if own == Own::Arms {
            self.own = Own::Sleeps;
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_watch_alone_wakes_the_nics_thread() {
        let mut watching = Watching::new();
        assert_eq!(watching.own(false), Own::Sleeps);
        for wakes in [true, false, false] {
            assert_eq!(watching.begin(1), Some(Begins { wakes, arms: false }));
            assert!(!watching.end());
        }
        assert_eq!(watching.own(false), Own::Looks);
    }

    #[test]
    fn the_nics_thread_takes_the_channel_back_from_a_program_that_watches_no_more() {
        let mut watching = Watching::new();
        watching.begin(1);
        watching.end();
        assert_eq!(watching.own(true), Own::Looks, "it has watched since");
        assert_eq!(watching.own(false), Own::Looks);
        assert_eq!(watching.own(true), Own::Arms);
        assert_eq!(watching.own(true), Own::Sleeps);
        assert!(watching.begin(1).is_some_and(|it| it.wakes));
    }

    #[test]
    fn nic_thread_is_notified_when_a_long_sleeper_wakes() {
        let mut watching = Watching::new();
        watching.begin(1);
        watching.own(true);
        assert_eq!(watching.own(true), Own::Rests);
        assert!(watching.end());
        assert_eq!(watching.own(true), Own::Arms);
    }

    #[test]
    fn one_thread_watches() {
        let mut watching = Watching::new();
        assert!(watching.begin(1).is_some());
        assert_eq!(watching.begin(1), None);
        watching.end();
        assert!(watching.begin(1).is_some());
    }

    #[test]
    fn nic_thread_keeps_the_channel_while_a_thread_depends_on_its_wake_up() {
        let mut watching = Watching::new();
        watching.begin(1);
        watching.own(false);
        assert!(watching.sleeper());
        assert!(!watching.sleeper());
        assert_eq!(watching.own(false), Own::Arms);
        assert_eq!(watching.own(true), Own::Sleeps);
        assert_eq!(watching.begin(1), None);
        watching.no_sleeper();
        watching.end();
        assert_eq!(watching.begin(1), None);
        watching.no_sleeper();
        assert!(watching.begin(1).is_some_and(|it| it.wakes));
    }

    /// After the NIC's thread has armed all VIs, the watching thread takes completions and leaves their VIs unarmed.
    #[test]
    fn all_is_armed_again_after_a_watch_during_which_the_channel_was_taken_back() {
        let mut watching = Watching::new();
        watching.begin(1);
        watching.sleeper();
        assert_eq!(watching.own(false), Own::Arms);
        assert!(watching.end());
        assert_eq!(watching.own(false), Own::Arms);
        assert_eq!(watching.own(false), Own::Sleeps);
    }

    /// The NIC's thread may never get the channel between the two watches.
    #[test]
    fn all_is_armed_when_another_queue_is_watched() {
        let mut watching = Watching::new();
        for (queue, arms) in [(1, false), (1, false), (2, true), (2, false), (1, true)] {
            assert_eq!(watching.begin(queue).map(|it| it.arms), Some(arms), "{queue}");
            watching.end();
        }
    }
}
