//! The integration tests of this package, in one program.

mod layers;
mod locked_memory;
