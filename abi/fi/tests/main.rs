//! The integration tests of this package, in one program.

mod layers;
mod programs;
