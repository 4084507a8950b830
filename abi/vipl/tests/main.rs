//! The integration tests of this package, in one program.

mod common;
mod header;
mod layers;
mod period;
mod programs;
mod symbols;
