//! The protection tag of a stream's VI and memory.

use crate::shared::Shared;
use std::sync::Arc;
use via::error::PtagError;
use via::{Nic, Ptag};

/// A stream's tag: the one that the streams of a stack share, or its own.
///
/// A NIC lets a peer write to whatever memory has the tag of the VI that the peer is connected to. So a stream that has its messages
/// written to where it says has a tag that no other one has. What a program lends to any stream of the stack, and what stays registered
/// between sends, has the stack's tag, and is registered once more to be sent by such a stream.
#[derive(Debug)]
pub(crate) struct Tag<N: Nic + 'static> {
    pub(crate) stack: Arc<Shared<N>>,
    own: Option<Ptag>,
}

impl<N: Nic + 'static> Tag<N> {
    /// The stack's.
    pub(crate) fn shared(stack: &Arc<Shared<N>>) -> Tag<N> {
        Tag { stack: stack.clone(), own: None }
    }

    /// One that nothing else has.
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
            // All that had it is gone.
            let _ = self.stack.nic.destroy_ptag(ptag);
        }
    }
}
