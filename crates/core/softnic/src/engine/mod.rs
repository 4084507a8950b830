//! The work of VIs, connections and completion queues.
//!
//! All code here runs under the world's lock and never waits. Later work is a packet or a timer. Callbacks are queued,
//! and the thread that holds the lock runs them after it has released the lock.

mod conn;
mod cq;
mod end;
mod moving;
mod rdma;
mod receive;
mod send;
mod train;
mod vi;
