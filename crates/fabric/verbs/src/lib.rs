//! RDMA verbs (libibverbs) and their connection manager (librdmacm), behind interfaces that are safe to use.
//!
//! Both libraries are rdma-core's and are loaded when first asked for, so that a program runs without them as well:
//! [`Api::get`] says what is missing. What a program posts and polls goes through functions of the device's driver,
//! whose addresses lie in its context; so a few structures of the libraries are laid down here ([`sys`]), and a test
//! compares them with the C headers.
//!
//! - [`device`]: a device that is open, its protection domains and what it offers;
//! - [`region`]: registered memory;
//! - [`completion`]: completion queues, and the channel on which a thread sleeps for them;
//! - [`pair`]: reliable-connected queue pairs;
//! - [`manager`]: identifiers of connections, and their events.
//!
//! What exists is counted ([`live`]), so that a test can see that all of it has been given back.

pub mod api;
pub mod completion;
pub mod device;
pub mod live;
pub mod manager;
pub mod pair;
pub mod region;
pub mod sys;

pub use api::{Api, Error};
pub use completion::{Channel, Completion, Cq, WcStatus};
pub use device::{Device, Domain, Offers};
pub use manager::{Event, EventKind, Events, Id, Space};
pub use pair::{Pair, Remote, Segment, Work};
pub use region::{RegisteredMemory, Rights};
