//! libfabric as its user sees it: loaded at run time, in safe Rust.
//!
//! A program with this crate runs where `libfabric.so.1` is not: [`Library::load`] says so. [`Endpoint`] is one reliable datagram
//! endpoint of a provider of libfabric's, with what belongs to it (fabric, domain, address vector, completion queue), and does
//! two things:
//!
//! - *frames*: short messages without a tag, through buffers of the endpoint's own ([`Endpoint::send`], [`Event::Frame`]);
//! - *moves*: an endpoint lends memory of the program's, and another one fetches its bytes to such memory, without a copy
//!   ([`Endpoint::lend`], [`Endpoint::fetch`], [`Event::Fetched`]).
//!
//! What the provider asks for is done: registration of local memory (`FI_MR_LOCAL`), contexts (`FI_CONTEXT`, `FI_CONTEXT2`), its
//! limits, and progress, which is made in [`Endpoint::poll`]. One thread uses an endpoint at a time.
//!
//! - `library`: the functions; `error`: what goes wrong; `choice`: which provider;
//! - `object`: libfabric's objects, closed in their order; `arena`: buffers for frames; `operation`: what is under way;
//! - `endpoint`: the endpoint; `leaving`: threads stay out of libfabric once the process ends.

#![warn(unsafe_op_in_unsafe_fn)]

mod arena;
mod choice;
mod endpoint;
mod error;
mod leaving;
mod library;
mod object;
mod operation;

pub use arena::Lent;
pub use choice::{Limits, PARTS_MAX};
pub use endpoint::{Endpoint, Event, Part, Span};
pub use error::Error;
pub use library::Library;
pub use operation::Peer;
