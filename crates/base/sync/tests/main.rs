//! The integration tests of this package, in one program.

mod common;
mod deaths;
mod early;
mod favours;
mod layers;
mod membarrier;
