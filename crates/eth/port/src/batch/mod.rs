//! Batches of frames, for sockets that transfer messages.

mod incoming;
mod name;
mod outgoing;

pub(crate) use incoming::{Incoming, Message};
pub(crate) use name::{Name, of_socket_addr};
pub(crate) use outgoing::{Handed, Outgoing};
