//! The integration tests of this package, in one program.

mod common;
mod layers;
mod packet;
mod udp;
mod xdp;
