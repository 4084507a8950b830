//! libvipl: the C interface of the VI Architecture, over any provider of [`via`]'s traits.
//!
//! One function of C is one short function here, grouped as in `include/vipl.h`: [`nic`], [`vi`],
//! [`connect`], [`peer`], [`memory`], [`transfer`], [`cq`], [`tagging`], [`names`], [`management`].
//! Beneath them:
//!
//! - [`handle`] turns what a program names (a NIC, a VI …) into the thing itself, or notices that
//!   there is no such thing, at the cost of a few nanoseconds; [`hazard`] is why nothing is
//!   destroyed under a thread that uses it;
//! - [`mod@pointer`] is the one way to what a program's pointers point to;
//! - `late` runs callbacks where no thread can be started for them;
//! - `first_tag` is what stands in where no protection tag is named;
//! - [`types`] are the structures, as C lays them out;
//! - [`provider`] is which NIC is meant by a device's name.
//!
//! Unsafe code is in [`handle`], [`hazard`], [`mod@pointer`] and [`memory`]. The exported functions are
//! safe for Rust, because only C can make the pointers that they take; the `unsafe` that they do
//! have is of their names, which no other function may have.

#![allow(non_snake_case, reason = "exported functions have VIPL's names")]

pub mod boundary;
pub mod callback;
pub mod connect;
pub mod cq;
mod discovery;
mod first_tag;
pub mod handle;
pub mod hazard;
mod hosts;
mod late;
pub mod management;
pub mod memory;
pub mod names;
pub mod nic;
pub mod peer;
pub mod pointer;
pub mod provider;
pub mod tagging;
mod tags;
pub mod transfer;
pub mod types;
pub mod vi;

pub use via::ReturnCode;

#[cfg(test)]
mod header_tests;
