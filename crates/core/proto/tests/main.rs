//! The integration tests of this package, in one program.

mod layers;
mod meeting;
mod paths;
mod search;
mod session;
mod state_table;
mod stream;
