//! Ports: how frames travel between NICs in software on an ordinary Ethernet.
//!
//! A [`Port`] takes frames of bytes to an [`Address`] and brings those that come, without ever blocking. It does not look
//! into them. Frames may be lost, doubled, reordered and corrupt on their way: what is made of that is the business of
//! the link above.
//!
//! | port | needs | one system call carries |
//! |---|---|---|
//! | [`udp`] | nothing | up to 64 frames of one length to one destination, as one datagram that the kernel or the device cuts |
//! | [`packet`] | `CAP_NET_RAW` | up to 64 frames out; in, none: they are read in memory that the kernel writes |
//! | [`xdp`] | `CAP_NET_RAW`, `CAP_NET_ADMIN`, `CAP_BPF` | 32 frames out, or none; in, none: they are read where the device or the kernel has put them |
//! | [`agent`] | an agent, which has one of those | any number of frames, or none where the other end does not sleep |
//! | [`impair`] | any other port | what that one does: it loses, doubles, reorders, delays and damages frames, by a seed |
//!
//! A [`Place`] is where a port is to be, as users write it.
//!
//! All system calls go straight to the kernel (`sovia-sys`): a port may be in a program whose libc calls Sovia interposes.

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
