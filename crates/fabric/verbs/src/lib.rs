//! RDMA verbs (libibverbs) and their connection manager (librdmacm), behind interfaces that are safe to use.
//!
//! Both libraries belong to rdma-core. They are loaded at first use, so a program also runs without them: [`Api::get`]
//! reports a missing library. Posting and polling use functions of the device's driver, whose addresses are in the
//! device's context. So [`sys`] declares a few structures of the libraries, and a test compares them with the C
//! headers.
//!
//! - [`device`]: an open device, its limits and its protection domains;
//! - [`region`]: registered memory;
//! - [`completion`]: completion queues, and the channel on which a thread sleeps for them;
//! - [`pair`]: reliable-connected queue pairs;
//! - [`manager`]: identifiers of connections, and their events.
//!
//! [`live`] counts the existing objects, so that a test can check that all have been destroyed.

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
