//! Memory protection: decides which memory a NIC may access for a VI.
//!
//! A program registers a range of its memory with a protection tag and gets a handle. A descriptor contains an address
//! and a handle. The NIC allows an access within a live region of that handle, if the region has the VI's tag. The NIC
//! checks this at the time of the access, and not when the descriptor is posted. A handle may become stale in between.
//! The handle's generation reveals that.

pub mod buffer;
pub mod cache;
mod region;
mod table;

pub use crate::tag::{MemHandle, Ptag};
pub use buffer::Memory;
pub use cache::RegionCache;
pub use region::Region;
pub use table::{Limits, MemoryTable};
