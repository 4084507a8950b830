//! Integration tests of this package, in one program.

mod frames;
mod layers;
