//! The integration tests of this package, in one program.

mod common;
mod faults;
mod firewall;
mod impostors;
mod layers;
mod soak;
