//! What a libfabric provider does, without libfabric's structures: those are `abi/fi`'s.
//!
//! An [`Endpoint`] sends to others and receives from them without connections that its program sees. How bytes reach a
//! peer is chosen for each peer, when it is first sent to: in one host by shared memory (`shm`), between hosts by EMP (`emp`). Above that, and the same
//! for any transport: matching ([`sovia_tags`]), long messages whose bytes stay the sender's until they have a
//! receive, reads, writes and atomic operations on registered memory, completion queues and counters.
//!
//! Nothing here has a thread but EMP's NIC, which does not match messages. Progress is made by calls: reading a completion queue or a counter, as libfabric's
//! manual progress has it.
//!
//! Two messages of up to 8 bytes, or one of up to 32, are a cache line in a ring; one of up to [`EAGER_MAX`] lies in the sender's segment; of a
//! longer one the receiver copies the bytes from the sender's memory, in one copy, once it has a receive for it. Where
//! the system forbids that the sender sends them in pieces.
//!
//! Between hosts a message of up to [`EAGER_MAX`] bytes goes into one of the receiver's rooms, a longer one straight from the one
//! program's memory to the other's.
//!
//! Unsafe code is in `memory`, `shm`, `emp` and [`domain`].

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

/// Bytes of a message that are the endpoint's own when the call that sends it returns.
pub const EAGER_MAX: usize = shm::EAGER_MAX;
