//! libsovia-fi: a libfabric provider over Sovia's transports.
//!
//! libfabric loads this library from `FI_PROVIDER_PATH` and calls [`provider::fi_prov_ini`]. Each module implements one
//! object of libfabric. Its functions decode the arguments from C and call `sovia-fi`, which does the work:
//!
//! - [`types`]: the structures, with the layout of C;
//! - [`info`]: the provider's capabilities, compared with a program's hints;
//! - [`mod@fabric`], [`mod@domain`], [`av`], [`cq`], [`cntr`], [`eq`], [`mr`], [`mod@endpoint`] and [`ep`]: the objects;
//! - [`msg`], [`tagged`], [`rma`], [`atomic`]: the operations of an endpoint.
//!
//! The functions that C calls are `unsafe`. C's caller must pass pointers that are valid as libfabric's manual pages
//! require, and must not use an object after its close. The domain's `threading` says which calls may run at the same
//! time.

#![allow(clippy::missing_safety_doc, reason = "one contract for all, above")]

// Without this crate, the library would need libgcc_s.so.1, which some container images lack.
use sovia_unwinder as _;

pub mod atomic;
pub mod av;
pub mod cntr;
pub mod cq;
pub mod domain;
pub mod endpoint;
pub mod ep;
pub mod eq;
pub mod fabric;
pub mod info;
pub mod mr;
pub mod msg;
mod object;
pub mod provider;
pub mod rma;
pub mod tagged;
mod wait;

pub use sovia_fi_types as types;

#[cfg(test)]
mod layout_tests;
