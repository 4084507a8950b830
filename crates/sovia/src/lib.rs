//! TCP streams that run over Virtual Interfaces in shared memory if both ends are on one host and speak Sovia, and over
//! TCP otherwise.
//!
//! [`TcpListener`] and [`TcpStream`] have the methods of their namesakes in [`std::net`], with the same meaning and the
//! same errors. A program changes only one line:
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
//! The other end may use this crate or `libsovia`, or run under `sovia run`. It may also be an ordinary TCP socket on
//! any machine. A stream begins on TCP and moves to a VI after a few transfers, if possible.
//! [`TcpStream::is_accelerated`] and [`TcpStream::stats`] report this. The stream's descriptor is the kernel's TCP
//! socket, with its addresses, options and `ss` entry. The kernel does not see the bytes on the VI, so no other code
//! may read or write the descriptor.
//!
//! # Without copying
//!
//! [`TcpStream::reserve`] gives a buffer to write a message into. [`TcpStream::borrow`] lends received bytes. On a VI
//! both buffers are in the memory that the two ends share.
//!
//! # In event loops
//!
//! [`TcpStream::readiness`] returns a descriptor that the kernel's epoll can wait for. With the feature `mio`, both
//! types are `mio::event::Source`s; with the feature `tokio`, the module `sovia::tokio` has types with `AsyncRead` and
//! `AsyncWrite`.
//!
//! # Processes
//!
//! A forked child shares its parent's streams. A program started with `std::process::Command` gets no streams: all are
//! close-on-exec, like those of `std::net`. Under `sovia run` the preloaded library's engine serves this crate, too.

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

/// Reason why a stream stays on TCP for good.
pub use sovia_control::Reason;
