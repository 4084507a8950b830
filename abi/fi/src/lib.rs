//! libsovia-fi: a libfabric provider over Sovia's transports.
//!
//! libfabric loads it from `FI_PROVIDER_PATH` and calls [`provider::fi_prov_ini`]. One object of libfabric's is one module
//! here; its functions decode what C passes and call `sovia-fi`, which does the work:
//!
//! - [`types`] are the structures, as C lays them out;
//! - [`info`] is what is offered, and whether that is what a program asks for;
//! - [`mod@fabric`], [`mod@domain`], [`av`], [`cq`], [`cntr`], [`eq`], [`mr`], [`mod@endpoint`] and [`ep`] are the objects;
//! - [`msg`], [`tagged`], [`rma`], [`atomic`] are what an endpoint's operations are called.
//!
//! The functions that C calls are `unsafe`: their pointers are what libfabric's manual pages say, and an object is not
//! used after it has been closed. What threads may do at the same time is what the domain's `threading` says.

#![allow(clippy::missing_safety_doc, reason = "one contract for all, above")]

// Without it the library would need libgcc_s.so.1, which not every image has.
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
