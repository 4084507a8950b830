//! Lanes between NICs of one process, with devices that are queues: what is carried, what is dropped, and what hostile peers
//! can do. Each case runs over shared memory and over UDP.

mod carried;
mod common;
mod dropped;
mod hostile;
mod start;
