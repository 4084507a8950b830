//! What VIs, connections and completion queues do when something happens to them.
//!
//! All of it runs under the world's lock, and waits for nothing: what is to happen later is a
//! packet or a timer, and callbacks are left to the thread that holds the lock, which runs them afterwards.

mod conn;
mod cq;
mod end;
mod moving;
mod rdma;
mod receive;
mod send;
mod train;
mod vi;
