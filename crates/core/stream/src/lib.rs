//! SOVIA's byte streams over Virtual Interfaces, on any provider.
//!
//! A [`Stack`] is a NIC with the state that its streams share. A stack connects a [`Stream`] to the listener at an
//! address, or creates a [`Listener`]. Each end chooses a [`Configuration`] from table 4 of the papers. The two
//! configurations may differ, except in the handshake: both ends must use SOVIA_3WAY, or both SOVIA_RDMA, or neither.
//!
//! ```
//! use sovia_stream::{Configuration, Stack};
//! use std::io::{Read, Write};
//! use via_sim::{Config, Network};
//!
//! let network = Network::new(1, Config::default().live());
//! let (server, client) = (network.nic("server"), network.nic("client"));
//! let address = server.address(b"echo");
//!
//! let server = Stack::new(server)?;
//! let listener = server.listen(&address, &Configuration::default())?;
//! let echo = std::thread::spawn(move || -> std::io::Result<()> {
//!     let stream = listener.accept().map_err(std::io::Error::other)?;
//!     std::io::copy(&mut &stream, &mut &stream)?;
//!     Ok(())
//! });
//!
//! let configuration: Configuration = "SOVIA_DACKS,copy".parse()?;
//! let stream = Stack::new(client)?.connect(&address, &configuration, None)?;
//! (&stream).write_all(b"over a VI")?;
//! stream.shutdown(std::net::Shutdown::Write)?;
//! let mut said = String::new();
//! (&stream).read_to_string(&mut said)?;
//! assert_eq!(said, "over a VI");
//! echo.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `stack`, `unconnected`, `stream`, `listener`, [`error`]: the types that a program uses;
//! - `buffer`, `received`: memory that is sent and received without a copy;
//! - `core`: one end of a stream, which executes the decisions of a session (`sovia_proto::session`) with descriptors;
//! - `shared`: state that the streams of a stack share;
//! - `memory`, `register`, `will`: registered memory, registration of a program's buffer for one send, and bytes that a
//!   dead process leaves to its peer;
//! - `cache`: the registration cache, and the code that detects when cached memory is unmapped;
//! - `handler`, `background`: the threads: SOVIA_HANDLER's, and a second thread. The second thread runs timers and
//!   finishes streams that their programs have closed (the papers' close thread). Each listener has the papers'
//!   connection thread.
//!
//! Papers: SOVIA, ICS 2001 (cited as ICS) and CLUSTER 2001.

#![deny(unsafe_code)]

mod background;
mod buffer;
mod cache;
mod core;
pub mod error;
mod handler;
mod listener;
mod memory;
mod received;
mod register;
mod shared;
mod stack;
mod stream;
mod tag;
mod target;
mod unconnected;
mod will;

pub use buffer::Buffer;
pub use cache::{CacheCounters, Caching};
pub use error::{AcceptError, CachingError, ConnectError, Reset, SetUpError, TransferError};
pub use listener::Listener;
pub use received::Received;
pub use sovia_proto::configuration::{self, Configuration};
pub use sovia_proto::state::State;
pub use stack::Stack;
pub use stream::Stream;
pub use unconnected::Unconnected;
