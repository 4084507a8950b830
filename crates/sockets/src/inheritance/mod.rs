//! Connections that outlive an exec.
//!
//! A program that inherits a connection knows neither how many bytes it has carried nor which other processes have it:
//! one of them may move bytes over TCP that nobody counts. So an inherited connection stays on TCP, unless the process
//! that became the program ran under Sovia and has told it ([`leave`]; [`sovia_control::inheritance`] has the form) where
//! the records of its family are. The program takes what it is told ([`take`]) and looks there, at its calls, until no
//! process of that family has the connection any more ([`is_alone`]). Then it is the only one with it, and the connection
//! may get a VI; the bytes that it had carried until then are the kernel's to tell.
//!
//! That holds where no program but that one has got the connection from the family. The family counts it
//! ([`crate::conn::Holding`]): an exec or a spawn that hands it on, and a descriptor that is sent to another process.
//!
//! A server under inetd is the case that matters: inetd accepts, forks, and becomes the server, whose descriptors 0, 1
//! and 2 are the connection.

mod leave;
mod take;

pub use leave::{Left, Target, may_be_left, shares_memory};
pub(crate) use leave::{leave, spread};
pub use take::take;
pub(crate) use take::{forget, is_alone};
