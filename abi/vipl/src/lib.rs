//! libvipl: the C interface of the VI Architecture, over any provider of [`via`]'s traits.
//!
//! Each C function is one short function here, grouped as in `include/vipl.h`: [`nic`], [`vi`], [`connect`], [`peer`],
//! [`memory`], [`transfer`], [`cq`], [`tagging`], [`names`], [`management`]. They use these modules:
//!
//! - [`handle`] finds the object of a handle (a NIC, a VI …), or recognizes an invalid handle, within a few
//!   nanoseconds. [`hazard`] keeps threads from destroying an object that another thread uses;
//! - [`mod@pointer`] is the only access to memory behind a program's pointers;
//! - `late` runs callbacks for which no thread can be started;
//! - `first_tag` has the tag that is used if a program names none;
//! - [`types`] has the structures in C's layout;
//! - [`provider`] chooses the NIC for a device's name.
//!
//! Unsafe code is in [`handle`], [`hazard`], [`mod@pointer`] and [`memory`]. The exported functions are safe for Rust
//! code, because only C can make the pointers that they take. Their `unsafe` attribute is about their exported names,
//! which no other function may have.

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
