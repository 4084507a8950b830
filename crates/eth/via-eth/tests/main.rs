//! The integration tests of this package, in one program.

mod capture;
mod ends;
mod layers;
mod namespaces;
mod paths;
mod strangers;
