//! TCP streams that run over Virtual Interfaces in shared memory where both ends are on one host and
//! speak Sovia, and over TCP where not.
//!
//! [`TcpListener`] and [`TcpStream`] have the methods of their namesakes in [`std::net`], with the same
//! meaning and the same errors, so that a program changes one line:
//!
//! ```
//! use sovia::{TcpListener, TcpStream};
//! use std::io::{Read, Write};
//!
//! # fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let echo = std::thread::spawn(move || {
//!     let (mut stream, _peer) = listener.accept()?;
//!     let mut buffer = [0; 5];
//!     stream.read_exact(&mut buffer)?;
//!     stream.write_all(&buffer)
//! });
//! let mut stream = TcpStream::connect(address)?;
//! stream.write_all(b"hello")?;
//! let mut answer = [0; 5];
//! stream.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"hello");
//! # echo.join().unwrap()
//! # }
//! ```
//!
//! The other end may be this crate's, a C program's (`libsovia`), any program's that runs under
//! `sovia run`, or an ordinary TCP socket, on any machine. A stream begins on TCP and moves onto a VI
//! after a few transfers, if it can; [`TcpStream::is_accelerated`] and [`TcpStream::stats`] tell. Its
//! descriptor is the kernel's TCP socket, with its addresses, options and `ss` entry; the bytes on
//! the VI are out of the kernel's sight, so no other code may read or write the descriptor.
//!
//! # Without copying
//!
//! [`TcpStream::reserve`] gives a buffer to write a message into, and [`TcpStream::borrow`] lends
//! what has arrived: on a VI both are places in the memory that the two ends share.
//!
//! # In event loops
//!
//! [`TcpStream::readiness`] is a descriptor that the kernel's epoll can wait for. With the feature
//! `mio`, both types are `mio::event::Source`s; with the feature `tokio`, the module
//! `sovia::tokio` has types with `AsyncRead` and `AsyncWrite`.
//!
//! # Processes
//!
//! A forked child shares its parent's streams. A program that is started (`std::process::Command`)
//! gets none of them: all are close-on-exec, as `std::net`'s are. Under `sovia run` the preloaded
//! library's engine serves this crate, too.

mod buffer;
mod engine;
mod listener;
#[cfg(feature = "mio")]
mod mio;
mod origin;
mod readiness;
mod stats;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use buffer::{BUFFER_MAX, RecvBuffer, SendBuffer};
pub use listener::{Incoming, TcpListener};
pub use readiness::Readiness;
pub use stats::{Path, Stats};
pub use stream::TcpStream;

/// Why a stream is on TCP for good.
pub use sovia_control::Reason;
