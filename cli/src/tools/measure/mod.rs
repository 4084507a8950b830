//! The commands `sovia bench` and `sovia demo`.

pub(crate) mod bench;
pub(crate) mod demo;
mod progress;
mod table;
