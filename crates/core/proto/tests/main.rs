//! The integration tests of this package, in one program.

mod layers;
mod paths;
mod rendezvous;
mod search;
mod session;
mod state_table;
mod stream;
