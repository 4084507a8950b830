//! A VI provider on libfabric: any of its providers with reliable datagram endpoints and reads of remote memory.
//!
//! A NIC is one endpoint. The VI above it is `sovia-softnic`'s; libfabric carries its frames, and moves long messages from the
//! sender's registered memory to the receiver's, without a copy (`sovia_softnic::moving`): when the message that meets a receive is
//! announced, the receiver says so, the sender lends the message's memory under a key of its own, and the receiver fetches the bytes (`moves`). So the
//! rule that a message without a receive breaks its VI is judged by the receiver, in the order in which messages arrive; a peer gets the key to
//! what is sent to it, and to nothing else: an RDMA write or read is checked by its target, each time, against handle, tag, range and rights as
//! they are at that moment.
//!
//! libfabric is loaded when the first NIC is opened; without it opening fails, and says why.
//!
//! - `place`: where a NIC is; `message`: what NICs say to each other beside frames; `nodes`: which peers there are;
//! - `fabric`: the endpoint as the medium of the engine; `arrivals`: what comes by it; `moves`, `exchange`: long messages;
//! - `alive`: when peers are greeted, by which those are found that are gone; `doubts`, `asking`, `presence`: finding out whether one is there;
//! - `config`: opening a NIC; `nic`: what a program holds in its hands.
//!
//! `sovia-drive` says which thread makes progress. A provider of libfabric's that makes none by itself makes it whenever such a thread
//! looks; one without a descriptor to sleep on is looked at after naps of up to a millisecond.
//!
//! # What is believed
//!
//! A message of a peer's names its sender by a number that the sender has drawn and told with its address. Connections' ends and tags are
//! drawn as well: what names none of today's is dropped and counted. Like the network below it, this is neither encrypted nor signed.
//!
//! # Fork
//!
//! A NIC belongs to the process that opened it. A forked child must not use its copy.

#![forbid(unsafe_code)]

mod alive;
mod arrivals;
mod asking;
mod config;
mod doubts;
mod exchange;
mod fabric;
mod message;
mod moves;
mod nic;
mod nodes;
mod place;
mod presence;

pub use config::{Config, OpenError};
pub use fabric::Fabric;
pub use nic::{Counts, OfiConnection, OfiCq, OfiNic, OfiVi, counts};
pub use nodes::Node;
pub use place::{BadPlace, Place};
