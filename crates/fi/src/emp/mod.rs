//! The transport between hosts: EMP's messages.
//!
//! EMP keeps no message that no receive awaits, and has 640 descriptors for all that is under way. They are divided once, so
//! that no kind of message waits for another kind's:
//!
//! | descriptors | for |
//! |---|---|
//! | 256 | receives of whatever is no longer than a room, from any peer: messages, requests, answers |
//! | 184 | sends of such |
//! | 64 | receives of parts of long messages, each straight into the program's memory |
//! | 64 | sends of such parts |
//! | 8 | receives of probes, from any peer |
//! | 64 | probes: messages without bytes, by which a peer is found dead that owes nothing but an answer |
//!
//! A room's message is copied at both ends, so that the program's buffer is its own again when a call returns, and a message may
//! wait for its receive. EMP matches messages of a peer with one tag in their order, but they may be complete in another one:
//! [`session`] puts them in order.
//!
//! A part of a long message is announced only when there is a receive for it, so none of them is ever sent in vain, and each
//! that is under way ends, whatever the other peers do.
//!
//! - `config`: where the station is, and what else the environment says;
//! - `room`: the memory of messages;
//! - `session`: the order of a peer's messages;
//! - `bulk`: long messages;
//! - `far`: all of it together.

mod bulk;
mod config;
mod far;
mod room;
mod session;

pub(crate) use config::uses_shm;
pub(crate) use emp_eth::Node;
pub(crate) use far::{Far, News};

/// EMP's tags of messages to rooms, and of probes. Those of long messages begin behind them.
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
