//! The integration tests of this package, in one program.

mod common;
mod layers;
mod period;
mod programs;
mod symbols;
