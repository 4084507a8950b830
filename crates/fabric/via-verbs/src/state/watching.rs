//! Which thread sleeps on the channel that tells of completions: the NIC's own, or one of the program's
//! ([`CompletionQueue::watch`](via::CompletionQueue::watch)).
//!
//! A program that watches comes back as soon as it has passed on what came. The NIC's thread therefore leaves the channel to it from the
//! first watch on, and looks from time to time whether the program still watches. It takes the channel back when the program no longer does,
//! and at once when a thread goes to sleep that only the NIC's thread wakes.

/// What the NIC's thread does about the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// It sleeps on it.
    Sleeps,
    /// As [`Own::Sleeps`], and VIs whose completions the program has taken as the watcher may not be armed: it arms all.
    Arms,
    /// It leaves it to the program, and looks again later whether that still watches.
    Looks,
    /// It leaves it to a thread that has been asleep since it looked last, and is told when that is awake.
    Rests,
}

/// Who watches. What functions return that take an event: whether the NIC's thread is to be woken.
#[derive(Debug)]
pub(crate) struct Watching {
    own: Own,
    /// A thread of the program's sleeps on the channel.
    is_in: bool,
    /// Whether one has begun to since the NIC's thread looked.
    is_new: bool,
    /// Threads that sleep until the NIC's thread has news for them.
    sleepers: u32,
    /// The queue that was watched last, whose VIs may not be armed.
    left: Option<usize>,
}

/// What is to be done as a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The NIC's thread is to be woken.
    pub(crate) wakes: bool,
    /// Another queue was watched before: all VIs are to be armed.
    pub(crate) arms: bool,
}

impl Watching {
    pub(crate) fn new() -> Watching {
        Watching { own: Own::Sleeps, is_in: false, is_new: false, sleepers: 0, left: None }
    }

    /// A thread of the program's is going to sleep on the channel, for that queue; `None` if it may not.
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

    /// It is awake, and has left VIs unarmed.
    pub(crate) fn end(&mut self) -> bool {
        self.is_in = false;
        let (own, wakes) = match self.own {
            Own::Looks => (Own::Looks, false),
            Own::Rests => (Own::Looks, true),
            // Another thread's sleep has given it the channel meanwhile.
            Own::Sleeps | Own::Arms => (Own::Arms, true),
        };
        self.own = own;
        wakes
    }

    /// A thread is going to sleep until the NIC's thread has news for it.
    pub(crate) fn sleeper(&mut self) -> bool {
        self.sleepers += 1;
        let had_channel = matches!(self.own, Own::Sleeps | Own::Arms);
        if !had_channel {
            self.own = Own::Arms;
        }
        !had_channel
    }

    /// It is awake.
    pub(crate) fn no_sleeper(&mut self) {
        self.sleepers -= 1;
    }

    /// For the NIC's thread: what it does from now on. `is_due`: it has left the channel alone for a while, and looks again.
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
    fn the_nics_thread_is_told_when_one_that_has_slept_for_long_wakes() {
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
    fn the_nics_thread_has_the_channel_while_a_thread_sleeps_that_only_it_wakes() {
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

    /// The watcher leaves the VIs unarmed whose completions it takes, after the NIC's thread has armed all.
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

    /// The NIC's thread may never get the channel back in between.
    #[test]
    fn all_is_armed_when_another_queue_is_watched() {
        let mut watching = Watching::new();
        for (queue, arms) in [(1, false), (1, false), (2, true), (2, false), (1, true)] {
            assert_eq!(watching.begin(queue).map(|it| it.arms), Some(arms), "{queue}");
            watching.end();
        }
    }
}
