//! The integration tests of this package, in one program.

mod hostile;
mod layers;
