//! The integration tests of this package, in one program.

mod cache;
mod common;
mod death;
mod edges;
mod heap;
mod hostile;
mod layers;
mod nics;
mod shm;
mod sim;
mod simulation;
