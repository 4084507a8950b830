//! libfabric's interface for users: loaded at run time, in safe Rust.
//!
//! A program with this crate also runs without `libfabric.so.1`: [`Library::load`] then reports an error. [`Endpoint`]
//! is one reliable datagram endpoint of a provider, with its fabric, domain, address vector and completion queue. An
//! endpoint has two functions:
//!
//! - *frames*: short messages without a tag, through buffers that the endpoint owns ([`Endpoint::send`],
//!   [`Event::Frame`]);
//! - *moves*: an endpoint lends memory of the program, and another endpoint fetches its bytes into memory of its
//!   program, without a copy ([`Endpoint::lend`], [`Endpoint::fetch`], [`Event::Fetched`]).
//!
//! The crate meets the provider's requirements: registration of local memory (`FI_MR_LOCAL`), contexts (`FI_CONTEXT`,
//! `FI_CONTEXT2`), and limits. Progress is made in [`Endpoint::poll`]. Only one thread may use an endpoint at a time.
//!
//! - `library`: the functions; `error`: the errors; `choice`: the choice of a provider;
//! - `object`: libfabric's objects, closed in order; `arena`: buffers for frames; `operation`: operations in progress;
//! - `endpoint`: the endpoint; `leaving`: keeps threads out of libfabric when the process ends.

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
