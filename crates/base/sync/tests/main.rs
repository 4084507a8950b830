//! The integration tests of this package, in one program.

mod biases;
mod common;
mod deaths;
mod early;
mod layers;
mod membarrier;
