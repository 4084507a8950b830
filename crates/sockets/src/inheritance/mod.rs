//! Connections that outlive an exec, or are sent to other processes.
//!
//! A program that inherits a connection does not know how many bytes the connection has carried, nor which other
//! processes have it. One of these processes may move bytes over TCP without counting the bytes. So an inherited
//! connection stays on TCP, with one exception. A process under Sovia leaves an inheritance to the program that it
//! executes (`leave.rs`; for the form see [`sovia_control::inheritance`]). The inheritance names the files with the
//! records of the process's family. The program takes the inheritance at its start (`take.rs`). In its later calls
//! the program checks the records, until no process of that family has the connection any more. Then only the
//! program has the connection, and the connection may get a VI. The kernel knows how many bytes the connection has
//! carried until then.
//!
//! Two conditions must hold:
//!
//! - No other program has got the connection from the family. The family counts each event by which another program
//!   may get the connection (`conn/handed.rs`). Such an event is an exec, a spawn, or a message with a descriptor.
//!   A process may also leave the family with the connection, and a child may run on a member's memory. The family
//!   counts in the same way each request to the kernel that the program would have to know of, such as an urgent
//!   byte.
//! - The process has executed this program itself. A program in between might have given the connection to a child
//!   first. So the process checks that Sovia's library will be loaded into the program.
//!
//! The important case is a server under inetd. inetd accepts, forks, and executes the server, whose descriptors 0, 1
//! and 2 are the connection.
//!
//! A process that receives a connection in a message gets no inheritance. Such a process looks for the sender's
//! records itself (`message.rs`), and continues in the same way. The important case is a server that accepts in one
//! process and sends each connection to another, such as Node's cluster.

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
