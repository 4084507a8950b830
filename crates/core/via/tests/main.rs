//! The integration tests of this package, in one program.

mod connection_table;
mod layers;
mod provider_traits;
mod state_table;
