//! The integration tests of this package, in one program.

mod fabric;
mod layers;
mod net;
