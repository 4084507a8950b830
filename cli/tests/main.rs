//! The integration tests of this package, in one program.

mod bench;
mod common;
mod device;
mod doctor;
mod enable;
mod key;
mod manual;
mod obstacles;
mod papers;
mod run;
mod usage;
