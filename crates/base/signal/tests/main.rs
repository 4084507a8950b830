//! The integration tests of this package, in one program.

mod faults;
mod layers;
mod switches;
