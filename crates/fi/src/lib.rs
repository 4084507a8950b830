//! The work of a libfabric provider, without libfabric's structures. `abi/fi` has the structures.
//!
//! An [`Endpoint`] sends to peers and receives from peers. The program sees no connections. The endpoint chooses a
//! transport for each peer at the first send: shared memory within a host (`shm`), EMP between hosts (`emp`).
//! Everything else is the same for both transports: matching ([`sovia_tags`]), long messages, reads, writes and atomic
//! operations on registered memory, completion queues and counters. The bytes of a long message stay in the sender's
//! memory until the receiver has a receive for the message.
//!
//! This crate starts no thread except the thread of EMP's NIC, which does not match messages. Calls make progress: each
//! call that reads a completion queue or a counter, as with libfabric's manual progress.
//!
//! In shared memory, two messages of up to 8 bytes, or one message of up to 32 bytes, take one cache line of a ring. A
//! message of up to [`EAGER_MAX`] bytes lies in the sender's segment. The receiver copies a longer message directly
//! from the sender's memory, once the receiver has a receive for the message. If the system forbids this access, the
//! sender sends the bytes in pieces.
//!
//! Between hosts, a message of up to [`EAGER_MAX`] bytes goes into a room of the receiver. A longer message goes
//! directly from one program's memory to the other program's memory.
//!
//! Unsafe code is only in `memory`, `shm`, `emp` and [`domain`].

mod address;
pub mod atomic;
pub mod completion;
pub mod domain;
mod emp;
pub mod endpoint;
pub mod error;
pub mod flag;
pub mod memory;
pub mod region;
mod shm;
mod slab;
pub mod vector;
mod wire;

pub use address::{ADDRESS_LEN, Address};
pub use domain::{Domain, State};
pub use endpoint::Endpoint;
pub use error::Error;

/// Largest message, in bytes, that a send copies before its call returns.
pub const EAGER_MAX: usize = shm::EAGER_MAX;
