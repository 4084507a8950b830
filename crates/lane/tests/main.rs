//! Integration tests of this package, in one program.

mod lanes;
mod layers;
