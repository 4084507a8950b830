//! What a medium does for its driver.

use sovia_link::Time;
use sovia_port::watch::Terms;
use sovia_softnic::{Medium, World};

/// A medium that is looked at, and slept on.
pub trait Driven: Medium + Sized {
    /// What the NIC's own thread is called.
    const THREAD: &'static str;

    /// Hands to the world what has come since the last look, once; how much that was.
    fn take(world: &mut World<Self>) -> usize;

    /// Does the next thing that is due without looking for more: what the NIC has sent to itself, and timers. False if there is
    /// nothing.
    fn step(world: &mut World<Self>) -> bool;

    /// Sends what has been handed to the medium.
    fn flush(&mut self);

    /// When the next timer goes off.
    fn next_timer(&self) -> Option<Time>;

    /// Time has passed since the clock was looked at.
    fn pass(&self);

    /// Time has passed, and it may be that of timers.
    fn look_at_clock(&self) {
        self.pass();
        let _ = self.now();
    }

    /// What a thread waits for that sleeps on the medium's descriptors until `until`, or the next timer. Where something has come
    /// already, that is now.
    fn terms(&mut self, until: Option<Time>) -> Terms;

    /// A thread has slept on the descriptors, or none has for a while; `news`: the medium may have changed.
    fn woken(&mut self, news: bool);

    /// The medium never works again.
    fn is_gone(&self) -> bool;
}
