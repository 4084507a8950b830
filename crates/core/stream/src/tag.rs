//! The protection tag of a stream's VI and memory.

use crate::shared::Shared;
use std::sync::Arc;
use via::error::PtagError;
use via::{Nic, Ptag};

/// A stream's protection tag: the stack's shared tag, or its own tag.
///
/// A NIC lets a peer write to any writable region that has the tag of the peer's VI. So a stream that accepts RDMA
/// writes has its own tag. Lent buffers and cached registrations have the stack's tag. A stream with its own tag
/// registers such memory again before it sends.
#[derive(Debug)]
pub(crate) struct Tag<N: Nic + 'static> {
    pub(crate) stack: Arc<Shared<N>>,
    own: Option<Ptag>,
}

impl<N: Nic + 'static> Tag<N> {
    /// Returns the stack's tag.
    pub(crate) fn shared(stack: &Arc<Shared<N>>) -> Tag<N> {
        Tag { stack: stack.clone(), own: None }
    }

    /// Creates a tag that only this stream uses.
    pub(crate) fn own(stack: &Arc<Shared<N>>) -> Result<Tag<N>, PtagError> {
        Ok(Tag { stack: stack.clone(), own: Some(stack.nic.create_ptag()?) })
    }

    pub(crate) fn ptag(&self) -> Ptag {
        self.own.unwrap_or(self.stack.ptag)
    }

    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }
}

impl<N: Nic + 'static> Drop for Tag<N> {
    fn drop(&mut self) {
        if let Some(ptag) = self.own {
            // The call cannot fail: all objects with the tag have been dropped.
            let _ = self.stack.nic.destroy_ptag(ptag);
        }
    }
}
