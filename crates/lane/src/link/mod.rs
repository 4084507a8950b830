//! A link: a VI with its memory, for the sender and for the receiver of packets.

mod receiver;
mod sender;

pub(crate) use receiver::{Received, Receiver};
pub(crate) use sender::{Heard, Sender, Sent};

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use via::error::{CreateViError, PostError, RegisterError};
use via::{Attach, Nic, ViAttributes};

/// Discriminator by which a lane accepts connections at its NIC.
pub(crate) const DISCRIMINATOR: &[u8] = b"sovia-lane";

/// Number of a link, unique within a lane.
pub(crate) type LinkId = u64;

/// A link of either kind.
pub(crate) enum Link<N: Nic> {
    /// Sends packets.
    Sender(Arc<Sender<N>>),
    /// Receives packets.
    Receiver(Arc<Receiver<N>>),
}

impl<N: Nic> Clone for Link<N> {
    fn clone(&self) -> Link<N> {
        match self {
            Link::Sender(sender) => Link::Sender(sender.clone()),
            Link::Receiver(receiver) => Link::Receiver(receiver.clone()),
        }
    }
}

/// Reason why a link could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    Vi(#[from] CreateViError),
    #[error(transparent)]
    Memory(#[from] RegisterError),
    #[error(transparent)]
    Post(#[from] PostError),
}

/// Returns the attributes of a lane's VIs. A connection fails if the ends' MTUs differ.
pub(crate) fn attributes(mtu: usize) -> ViAttributes {
    ViAttributes { max_transfer_size: mtu as u32, ..ViAttributes::default() }
}

/// Creates a VI whose receives complete in `cq`.
fn make_vi<N: Nic>(nic: &N, cq: &N::Cq, id: LinkId, mtu: usize) -> Result<N::Vi, CreateViError> {
    nic.create_vi_with(attributes(mtu), Attach { send: None, recv: Some(cq), context: id })
}

/// Returns a number that no link has had.
pub(crate) fn next_id(last: &AtomicU64) -> LinkId {
    last.fetch_add(1, Ordering::Relaxed) + 1
}
