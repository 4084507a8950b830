//! Ports, which carry frames between NICs in software on an ordinary Ethernet.
//!
//! A [`Port`] sends frames of bytes to an [`Address`] and receives frames, and never blocks. A port does not interpret
//! the frames. Frames may be lost, duplicated, reordered and corrupted on their way. The layer above (`link`) handles
//! these faults.
//!
//! | port | needs | frames per system call |
//! |---|---|---|
//! | [`udp`] | nothing | up to 64 frames of one length to one destination, as one datagram that the kernel or the device cuts |
//! | [`packet`] | `CAP_NET_RAW` | out: up to 64 frames; in: no system call, because the kernel writes frames into shared memory |
//! | [`xdp`] | `CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_BPF` | out: 32 frames, or no system call; in: no system call, because frames are read where the device or the kernel put them |
//! | [`agent`] | an agent with one of these ports | any number of frames, or no system call while the other end does not sleep |
//! | [`impair`] | any other port | like the inner port. This port loses, duplicates, reorders, delays and corrupts frames, by a seed |
//!
//! A [`Place`] names a port in the form that users write.
//!
//! Ports make all system calls directly (`sovia-sys`), because a port may run in a program whose libc calls Sovia
//! interposes.

mod address;
pub mod agent;
mod batch;
mod device;
pub mod ethernet;
pub mod impair;
pub mod packet;
mod place;
mod port;
pub mod udp;
pub mod watch;
pub mod xdp;

pub use address::Address;
pub use place::{BadPlace, Opened, Place, Use};
pub use port::{Counters, Descriptors, Error, Listens, OpenError, Port, Refused};
