//! The integration tests of this package, in one program.

mod layers;
mod programs;
mod semantics;
mod streams;
