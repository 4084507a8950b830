//! What the NICs of a process have in common: the process's identity, its links, its listeners.

use crate::connect::listen::Listeners;
use crate::engine::Engine;
use crate::link::Token;
use sovia_sync::fences;
use sovia_sys::call;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// One per process that has a NIC open.
#[derive(Debug)]
pub(crate) struct Hub {
    /// The process that this is the hub of.
    owner: i32,
    /// Tells the process from all others, now and before. Peers that reach into this process's
    /// memory look for it there, so it stays where it is.
    pub(crate) token: Box<Token>,
    pub(crate) uid: u32,
    pub(crate) engine: Engine,
    pub(crate) listeners: Listeners,
}

impl Hub {
    /// Where the token lies.
    pub(crate) fn token_at(&self) -> u64 {
        self.token.as_ptr() as u64
    }

    /// The hub of this process. It ends with its last user.
    ///
    /// # Errors
    /// What the system says where it has no more descriptors or threads.
    pub(crate) fn open() -> std::io::Result<Arc<Hub>> {
        static CURRENT: Mutex<Weak<Hub>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = call::getpid();
        // A forked child finds its parent's, whose thread is not there.
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
