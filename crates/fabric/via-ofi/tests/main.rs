//! The integration tests of this package, in one program.

mod faults;
mod hosts;
mod layers;
mod resets;
mod stopped;
