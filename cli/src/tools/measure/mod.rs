//! What `sovia bench` and `sovia demo` do.

pub(crate) mod bench;
pub(crate) mod demo;
mod progress;
mod table;
