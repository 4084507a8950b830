//! SOVIA_HANDLER's thread (ICS figure 4b): it waits on the one completion queue to which the
//! receive queues of all streams are attached, finds the stream of each entry, and handles the
//! arrival. It runs while there are such streams.

use crate::core::Core;
use crate::error::SetUpError;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use via::{CompletionQueue, Nic};

/// How long the thread waits at most before it looks whether there are streams left.
const NAP: Duration = Duration::from_millis(500);

pub(crate) struct Handler<N: Nic + 'static>(Mutex<Handling<N>>);

struct Handling<N: Nic + 'static> {
    queue: Option<Arc<N::Cq>>,
    /// Entries that the streams may need at once.
    entries: u32,
    streams: HashMap<u64, Weak<Core<N>>>,
    running: bool,
}

impl<N: Nic + 'static> Default for Handler<N> {
    fn default() -> Handler<N> {
        let (queue, streams) = (None, HashMap::new());
        Handler(Mutex::new(Handling { queue, entries: 0, streams, running: false }))
    }
}

impl<N: Nic + 'static> Handler<N> {
    fn lock(&self) -> MutexGuard<'_, Handling<N>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The completion queue, with room for another stream's receives. Each call is answered by a
    /// [`Handler::leave`].
    pub(crate) fn queue(&self, nic: &N, receives: usize) -> Result<Arc<N::Cq>, SetUpError> {
        let mut handling = self.lock();
        let entries = handling.entries + receives as u32;
        let most = nic.attributes().max_cq_entries;
        if entries > most {
            return Err(SetUpError::TooSmall("entries in a completion queue"));
        }
        // In steps, so that it is rarely changed.
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

    /// A stream is no more, or has not come about.
    pub(crate) fn leave(&self, id: u64, receives: usize) {
        let mut handling = self.lock();
        handling.entries -= receives as u32;
        handling.streams.remove(&id);
    }
}

impl<N: Nic + 'static> Handler<N> {
    /// Handles a stream's arrivals from now on.
    pub(crate) fn join(&self, core: &Arc<Core<N>>) -> Result<(), SetUpError> {
        let mut handling = self.lock();
        handling.streams.insert(core.id, Arc::downgrade(core));
        let Some(queue) = handling.queue.clone().filter(|_| !handling.running) else {
            return Ok(());
        };
        let stack = Arc::downgrade(&core.stack);
        let run = move || {
            loop {
                let entry = queue.wait(Some(NAP));
                let Some(stack) = stack.upgrade() else { return };
                let handler = stack.handler();
                let core = match entry {
                    Ok(entry) => handler.lock().streams.get(&entry.context).cloned(),
                    Err(_) if handler.ends() => return,
                    Err(_) => None,
                };
                if let Some(core) = core.and_then(|core| core.upgrade()) {
                    core.handle();
                }
            }
        };
        let thread = thread::Builder::new().name("sovia-handler".into());
        thread.spawn(run).map_err(|error| SetUpError::Thread(error.kind()))?;
        handling.running = true;
        Ok(())
    }

    /// Whether the thread ends, for want of streams.
    fn ends(&self) -> bool {
        let mut handling = self.lock();
        handling.running = !handling.streams.is_empty();
        !handling.running
    }
}
