//! The trait of a medium that this crate drives.

use sovia_link::Time;
use sovia_port::watch::Terms;
use sovia_softnic::{Medium, World};

/// A medium that threads poll, and on whose descriptors they sleep.
pub trait Driven: Medium + Sized {
    /// Name of the NIC's own thread.
    const THREAD: &'static str;

    /// Passes arrived frames to the world, once. Returns their number.
    fn take(world: &mut World<Self>) -> usize;

    /// Executes the next due work without looking for more: frames from the NIC to itself, and timers. Returns false if
    /// nothing is due.
    fn step(world: &mut World<Self>) -> bool;

    /// Sends the frames that the medium holds.
    fn flush(&mut self);

    /// Returns the time of the next timer.
    fn next_timer(&self) -> Option<Time>;

    /// Forgets the time, because time has passed.
    fn pass(&self);

    /// Reads the clock, so that due timers run.
    fn look_at_clock(&self) {
        self.pass();
        let _ = self.now();
    }

    /// Returns the descriptors and the time limit for a thread that sleeps until `until` or the next timer. If a frame
    /// has already arrived, the time limit is now.
    fn terms(&mut self, until: Option<Time>) -> Terms;

    /// Notes that a thread has slept on the descriptors, or that no thread has for a while. `news`: the medium may have
    /// changed.
    fn woken(&mut self, news: bool);

    /// Returns true if the medium will never work again.
    fn is_gone(&self) -> bool;
}
