//! The integration tests of this package, in one program.

mod common;
mod cq;
mod frames;
mod layers;
mod lent;
mod many;
mod meeting;
mod partition;
mod rdma;
mod registering;
mod reliable;
mod unreliable;
