//! What holds a world and makes it go on.

use crate::medium::{Deadline, Medium};
use crate::world::World;
use core::fmt::Debug;
use core::time::Duration;
use via::Memory;
use via::cq::Watch;

/// Holds a world under its lock, and makes progress in it. Clones hold the same world; each NIC, VI, completion queue
/// and request has one.
pub trait Driver: Clone + Debug + Send + Sync + 'static {
    /// What carries the world's frames.
    type Medium: Medium;

    /// Does something to the world, and then what has to follow: waiting threads are woken
    /// ([`World::take_news`]), and callbacks run without the lock ([`World::begin_callbacks`]).
    fn with<R>(&self, work: impl FnOnce(&mut World<Self::Medium>) -> R) -> R;

    /// As [`Driver::with`], for a call that looks whether something has come: if there is nothing yet, the driver may
    /// see what the network has, and look again.
    fn look<R>(&self, look: impl FnMut(&mut World<Self::Medium>) -> Option<R>) -> Option<R>;

    /// When a wait that begins now is over.
    fn deadline(&self, timeout: Option<Duration>) -> Deadline;

    /// Waits until there is something to see, and meanwhile lets happen what can happen. `None` if it is too late, or
    /// if nothing can happen any more.
    fn wait<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Self::Medium>) -> Option<R>,
    ) -> Option<R>;

    /// As [`Driver::wait`], for a request for a connection, which [`World::take_requests`] tells of: a driver may have threads
    /// that wait for other things see to the network before one that does nothing but this.
    fn wait_for_request<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Self::Medium>) -> Option<R>,
    ) -> Option<R> {
        self.wait(deadline, look)
    }

    /// As [`via::CompletionQueue::watch`]; `is_there`: there is something already.
    fn watch(&self, is_there: impl FnOnce(&mut World<Self::Medium>) -> bool) -> Option<Watch> {
        let _ = is_there;
        None
    }

    /// As [`via::CompletionQueue::awake`].
    fn awake(&self, ready: [bool; 3]) {
        let _ = ready;
    }

    /// Memory has been registered with a NIC, which has so many bytes registered beside it.
    fn registered(&self, memory: &Memory, beside: u64) {
        let _ = (memory, beside);
    }

    /// Memory has been deregistered, likewise.
    fn deregistered(&self, memory: &Memory, beside: u64) {
        let _ = (memory, beside);
    }
}
