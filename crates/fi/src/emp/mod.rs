//! The transport between hosts, with EMP's messages.
//!
//! EMP drops a message for which no receive is posted, and has 640 descriptors for all transfers. A fixed division of
//! the descriptors ensures that no kind of message waits for another kind:
//!
//! | descriptors | for |
//! |---|---|
//! | 256 | receives of messages, requests and answers that fit into a room, from any peer |
//! | 184 | sends of such messages |
//! | 64 | receives of parts of long messages, each directly into the program's memory |
//! | 64 | sends of such parts |
//! | 8 | receives of probes, from any peer |
//! | 64 | probes: messages without bytes, which detect the death of a peer with no other transfer under way |
//!
//! Both ends copy a message that fits into a room. Therefore the program may reuse its buffer when the call returns,
//! and a message can wait for its receive. EMP matches messages of a peer with one tag in order, but they can complete
//! in another order. [`session`] restores the order.
//!
//! The sender sends a part of a long message only after the receiver has posted a receive for it. So EMP never drops a
//! part, and each part under way ends, whatever other peers do.
//!
//! - `config`: the configuration, from the environment;
//! - `room`: the memory of messages;
//! - `session`: the order of a peer's messages;
//! - `bulk`: long messages;
//! - `far`: the station, and all transfers.

mod bulk;
mod config;
mod far;
mod room;
mod session;

pub(crate) use config::uses_shm;
pub(crate) use emp_eth::Node;
pub(crate) use far::{Far, News};

/// EMP's tags of messages into rooms, and of probes. Higher tags are for long messages.
const EAGER: u32 = 0;
const PROBE: u32 = 1;
const FIRST_BULK: u32 = 2;

const RECEIVES: usize = 256;
const SENDS: usize = 184;
const BULK_RECEIVES: usize = 64;
const BULK_SENDS: usize = 64;
const PROBED: usize = 8;
const PROBES: usize = 64;
const _: () = assert!(
    RECEIVES + SENDS + BULK_RECEIVES + BULK_SENDS + PROBED + PROBES == emp_eth::DESCRIPTORS
);
