//! The integration tests of this package, in one program.

mod bequest;
mod common;
mod death;
mod faults;
mod faults_connecting;
mod forked;
mod fuzz_descriptors;
mod hostile;
mod hostile_rdma;
mod idle;
mod layers;
mod many;
mod memory;
mod recycled;
mod revoking;
