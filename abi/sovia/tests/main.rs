//! The integration tests of this package, in one program.

mod common;
mod examples;
mod go;
mod guide;
mod header;
mod layers;
mod programs;
