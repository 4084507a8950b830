//! SOVIA: byte streams over Virtual Interfaces, over any provider.
//!
//! A [`Stack`] is a NIC with what its streams share. It connects a [`Stream`] to the listener at
//! an address, or makes a [`Listener`]. Both ends choose a [`Configuration`] of the papers' table 4;
//! they need not choose the same, but for the handshake: SOVIA_3WAY and SOVIA_RDMA talk to their like only.
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
//! - `stack`, `unconnected`, `stream`, `listener`, [`error`]: what a program has in its hands, and
//!   `buffer`, `received`: memory that travels without being copied;
//! - `core`: one end: what a session (`sovia_proto::session`) says, done with descriptors;
//! - `shared`: what the streams of a stack share;
//! - `memory`, `register`, `will`: registered memory, the program's own for one send, and what is
//!   left to the peer of a process that dies;
//! - `cache`: the program's memory that stays registered between sends, and what notices that it goes;
//! - `handler`, `background`: the threads: SOVIA_HANDLER's, and the one for timers and for streams
//!   that their programs have closed (the papers' close thread). The papers' connection thread is
//!   the listener's.
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
