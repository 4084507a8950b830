//! SOVIA_HANDLER's thread (ICS figure 4b). The receive queues of all streams are attached to one completion queue. The
//! thread waits for an entry, finds the stream of the entry, and handles the arrival. The thread runs while such
//! streams exist.

use crate::error::SetUpError;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use via::{CompletionQueue, Nic};

/// Longest time that the thread waits before it checks whether any streams are left.
const NAP: Duration = Duration::from_millis(500);

/// The operation of a stream that the thread uses.
pub(crate) trait Handled: Send + Sync {
    /// Handles one arrival, after the thread has taken its entry from the completion queue.
    fn handle(&self);
}

/// The handler thread and its streams.
pub(crate) struct Handler<N: Nic + 'static>(Arc<State<N>>);

struct State<N: Nic + 'static>(Mutex<Handling<N>>);

struct Handling<N: Nic + 'static> {
    queue: Option<Arc<N::Cq>>,
    /// Largest number of entries that the streams need at once.
    entries: u32,
    streams: HashMap<u64, Weak<dyn Handled>>,
    running: bool,
}

impl<N: Nic + 'static> Default for Handler<N> {
    fn default() -> Handler<N> {
        let (queue, streams) = (None, HashMap::new());
        let handling = Handling { queue, entries: 0, streams, running: false };
        Handler(Arc::new(State(Mutex::new(handling))))
    }
}

impl<N: Nic + 'static> State<N> {
    fn lock(&self) -> MutexGuard<'_, Handling<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the thread must end because there are no streams.
    fn ends(&self) -> bool {
        let mut handling = self.lock();
        handling.running = !handling.streams.is_empty();
        !handling.running
    }
}

impl<N: Nic + 'static> Handler<N> {
    /// Returns the completion queue, with room for another stream's receives. The caller must later call
    /// [`Handler::leave`].
    pub(crate) fn queue(&self, nic: &N, receives: usize) -> Result<Arc<N::Cq>, SetUpError> {
        let mut handling = self.0.lock();
        let entries = handling.entries + receives as u32;
        let most = nic.attributes().max_cq_entries;
        if entries > most {
            return Err(SetUpError::TooSmall("entries in a completion queue"));
        }
        // Grow in powers of two, so that the queue is seldom resized.
        let wanted = entries.next_power_of_two().min(most);
        let queue = match handling.queue.take() {
            Some(queue) => {
                let grown = if queue.capacity() < wanted { queue.resize(wanted) } else { Ok(()) };
                handling.queue = Some(queue.clone());
                grown?;
                queue
            }
            None => Arc::new(nic.create_cq(wanted, 0)?),
        };
        handling.queue = Some(queue.clone());
        handling.entries = entries;
        Ok(queue)
    }

    /// Removes a stream that has ended, or that could not be created.
    pub(crate) fn leave(&self, id: u64, receives: usize) {
        let mut handling = self.0.lock();
        handling.entries -= receives as u32;
        handling.streams.remove(&id);
    }

    /// Handles the arrivals of stream `id` from now on.
    pub(crate) fn join(&self, id: u64, stream: Weak<dyn Handled>) -> Result<(), SetUpError> {
        let mut handling = self.0.lock();
        handling.streams.insert(id, stream);
        let Some(queue) = handling.queue.clone().filter(|_| !handling.running) else {
            return Ok(());
        };
        let state = Arc::downgrade(&self.0);
        let run = move || {
            loop {
                let entry = queue.wait(Some(NAP));
                let Some(state) = state.upgrade() else { return };
                let stream = match entry {
                    Ok(entry) => state.lock().streams.get(&entry.context).cloned(),
                    Err(_) if state.ends() => return,
                    Err(_) => None,
                };
                if let Some(stream) = stream.and_then(|stream| stream.upgrade()) {
                    stream.handle();
                }
            }
        };
        let thread = thread::Builder::new().name("sovia-handler".into());
        thread.spawn(run).map_err(|error| SetUpError::Thread(error.kind()))?;
        handling.running = true;
        Ok(())
    }
}
