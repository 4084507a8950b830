//! Data that the NICs of a process share: the process's identity, its links and its listeners.

use crate::connect::listen::Listeners;
use crate::engine::Engine;
use crate::link::Token;
use sovia_sync::fences;
use sovia_sys::call;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The shared data of a process's open NICs. A process has at most one hub.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Process id of the process that created the hub.
    owner: i32,
    /// Random number that identifies the process among all earlier and current processes. Before a peer accesses
    /// this process's memory, it checks that the token is at its address. So the token's address never changes.
    pub(crate) token: Box<Token>,
    pub(crate) uid: u32,
    pub(crate) engine: Engine,
    pub(crate) listeners: Listeners,
}

impl Hub {
    /// Returns the token's address.
    pub(crate) fn token_at(&self) -> u64 {
        self.token.as_ptr() as u64
    }

    /// Returns the hub of this process, and creates it if there is none. The hub is dropped with its last user.
    ///
    /// # Errors
    /// The system's error if it cannot create another file descriptor or thread.
    pub(crate) fn open() -> std::io::Result<Arc<Hub>> {
        static CURRENT: Mutex<Weak<Hub>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = call::getpid();
        // A forked child would find its parent's hub, whose thread does not exist in the child.
        if let Some(hub) = current.upgrade().filter(|hub| hub.owner == owner) {
            return Ok(hub);
        }
        crate::bias::prepare();
        fences::find_out();
        let mut token = Box::new(Token::default());
        call::getrandom(&mut *token)
            .map_err(|e| std::io::Error::from_raw_os_error(e.into_raw()))?;
        let hub = Arc::new(Hub {
            owner,
            token,
            uid: call::geteuid(),
            engine: Engine::start()?,
            listeners: Listeners::default(),
        });
        *current = Arc::downgrade(&hub);
        Ok(hub)
    }
}
