//! The integration tests of this package, in one program.

mod common;
mod devices;
mod layers;
mod pair;
mod processes;
