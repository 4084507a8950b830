//! Tests of lanes between NICs of one process. The devices are queues. The tests cover packets that are carried,
//! packets that are dropped, and hostile peers. Each case runs over shared memory and over UDP.

mod carried;
mod common;
mod dropped;
mod hostile;
mod start;
