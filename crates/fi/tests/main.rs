//! The integration tests of this package, in one program.

mod hosts;
mod layers;
