//! The integration tests of this package, in one program.

mod preload;
mod shelves;
