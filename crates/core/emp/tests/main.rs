//! The integration tests of this package, in one program.

mod dissector;
mod layers;
mod sim;
mod state;
mod wire;
