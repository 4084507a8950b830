//! Connections that outlive an exec, or are sent to other processes.
//!
//! A program that inherits a connection knows neither how many bytes it has carried nor which other processes have it:
//! one of them may move bytes over TCP without counting them. So an inherited connection stays on TCP, unless the process
//! that became the program ran under Sovia and has told it (`leave.rs`; [`sovia_control::inheritance`] has the form) where
//! the records of its family are. The program takes what it is told (`take.rs`) and looks there, at its calls, until no
//! process of that family has the connection any more. Then it is the only one with it, and the connection
//! may get a VI; the bytes that it had carried until then are the kernel's to tell.
//!
//! That holds where no program but that one has got the connection from the family. The family counts it
//! (`conn/handed.rs`): an exec or a spawn that hands it on, a descriptor that is sent to another process, a process that
//! leaves the family with it, a child that runs on a member's memory. What the kernel is asked for that the program would
//! have to know of, such as an urgent byte, counts in the same way.
//!
//! And it holds where the program is the one that the process became, not one that another program became in its turn,
//! which may have given it to a child first: so the process looks whether the library will be loaded into it.
//!
//! A server under inetd is the case that matters: inetd accepts, forks, and becomes the server, whose descriptors 0, 1
//! and 2 are the connection.
//!
//! A process that receives a connection in a message is told nothing. It looks for the sender's records itself
//! (`message.rs`), and from then on it is the same. Servers that accept in one process and send each connection to another
//! one, such as Node's cluster, are the case that matters there.

mod families;
mod leave;
mod message;
mod take;

pub(crate) use families::forget;
pub(crate) use leave::shares_memory;
pub(crate) use leave::{Descriptors, inherited, leave, spread};
pub use leave::{Left, Target, taken};
pub(crate) use message::{looked_at, pass, received};
pub use take::take;
pub(crate) use take::{is_alone, is_for_kernel};
