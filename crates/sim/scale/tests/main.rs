//! The integration tests of this package, in one program.

mod common;
mod layers;
mod rules;
mod state;
mod tables;
mod written;
