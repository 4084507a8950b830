//! A VI with its memory: at the end that sends packets, and at the end that receives them.

mod receiver;
mod sender;

pub(crate) use receiver::{Received, Receiver};
pub(crate) use sender::{Heard, Sender, Sent};

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use via::error::{CreateViError, PostError, RegisterError};
use via::{Attach, Nic, ViAttributes};

/// Under what discriminator a lane waits for peers at its NIC.
pub(crate) const DISCRIMINATOR: &[u8] = b"sovia-lane";

/// Names an end among all of a lane's.
pub(crate) type LinkId = u64;

/// Either end.
pub(crate) enum Link<N: Nic> {
    /// This one sends.
    Sender(Arc<Sender<N>>),
    /// This one receives.
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

/// Why there can be no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MakeError {
    #[error(transparent)]
    Vi(#[from] CreateViError),
    #[error(transparent)]
    Memory(#[from] RegisterError),
    #[error(transparent)]
    Post(#[from] PostError),
}

/// What every lane's VIs are like: both ends must have the same MTU.
pub(crate) fn attributes(mtu: usize) -> ViAttributes {
    ViAttributes { max_transfer_size: mtu as u32, ..ViAttributes::default() }
}

/// A VI whose receives are told of in a completion queue.
fn make_vi<N: Nic>(nic: &N, cq: &N::Cq, id: LinkId, mtu: usize) -> Result<N::Vi, CreateViError> {
    nic.create_vi_with(attributes(mtu), Attach { send: None, recv: Some(cq), context: id })
}

/// A name that no end has had.
pub(crate) fn next_id(last: &AtomicU64) -> LinkId {
    last.fetch_add(1, Ordering::Relaxed) + 1
}
