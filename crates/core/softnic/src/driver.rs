//! The owner of a world, which makes it progress.

use crate::medium::{Deadline, Medium};
use crate::world::World;
use core::fmt::Debug;
use core::time::Duration;
use via::Memory;
use via::cq::Watch;

/// Owner of a world, under a lock. Clones refer to the same world. Each NIC, VI, completion queue and request has a
/// clone.
pub trait Driver: Clone + Debug + Send + Sync + 'static {
    /// The network below the world.
    type Medium: Medium;

    /// Calls `work` with the locked world. Afterwards wakes waiting threads ([`World::take_news`]), and runs callbacks
    /// without the lock ([`World::begin_callbacks`]).
    fn with<R>(&self, work: impl FnOnce(&mut World<Self::Medium>) -> R) -> R;

    /// Like [`Driver::with`], for a call that polls. If `look` returns `None`, the driver may receive from the network
    /// and call `look` again.
    fn look<R>(&self, look: impl FnMut(&mut World<Self::Medium>) -> Option<R>) -> Option<R>;

    /// Returns the deadline of a wait that begins now.
    fn deadline(&self, timeout: Option<Duration>) -> Deadline;

    /// Waits until `look` returns a value, and makes progress meanwhile. Returns `None` after the deadline, or if no
    /// more progress is possible.
    fn wait<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Self::Medium>) -> Option<R>,
    ) -> Option<R>;

    /// Like [`Driver::wait`], for a request for a connection, which [`World::take_requests`] reports. A driver may
    /// prefer threads with other waits when it chooses the thread that serves the network.
    fn wait_for_request<R>(
        &self,
        deadline: Deadline,
        look: impl FnMut(&mut World<Self::Medium>) -> Option<R>,
    ) -> Option<R> {
        self.wait(deadline, look)
    }

    /// Implements [`via::CompletionQueue::watch`]. `is_there` returns true if there is an entry already.
    fn watch(&self, is_there: impl FnOnce(&mut World<Self::Medium>) -> bool) -> Option<Watch> {
        let _ = is_there;
        None
    }

    /// Implements [`via::CompletionQueue::awake`].
    fn awake(&self, ready: [bool; 3]) {
        let _ = ready;
    }

    /// Notes that memory has been registered with a NIC that has `beside` other bytes registered.
    fn registered(&self, memory: &Memory, beside: u64) {
        let _ = (memory, beside);
    }

    /// Notes that memory has been deregistered from a NIC that has `beside` other bytes registered.
    fn deregistered(&self, memory: &Memory, beside: u64) {
        let _ = (memory, beside);
    }
}
