//! Protection: which memory a NIC may touch for which VI.
//!
//! A program registers a range of its memory under a protection tag and gets a handle. A
//! descriptor names memory by address and handle; the NIC allows the access if the handle is one
//! of a live region, the range lies in that region, and the region's tag is the VI's. Everything
//! is checked at the time of the access, not when the descriptor is posted: a handle may go stale
//! in between, and carries a generation so that this is noticed.

pub mod buffer;
pub mod cache;
mod region;
mod table;

pub use crate::tag::{MemHandle, Ptag};
pub use buffer::Memory;
pub use cache::RegionCache;
pub use region::Region;
pub use table::{Limits, MemoryTable};
