//! Connections that outlive an exec, or are sent to other processes.
//!
//! A program that inherits a connection does not know how many bytes the connection has carried, nor which other
//! processes have it. One of these processes may move bytes over TCP without counting them. So an inherited
//! connection stays on TCP, with one exception. A process under Sovia leaves an inheritance to the program that it
//! executes (`leave.rs`; for the form see [`sovia_control::inheritance`]). The inheritance names the files with the
//! records of the process's family. The program takes the inheritance at its start (`take.rs`). At its calls it
//! checks the records, until no process of that family has the connection any more. Then only the program has it, and
//! the connection may get a VI. The kernel knows how many bytes the connection has carried until then.
//!
//! Two conditions must hold:
//!
//! - No other program has got the connection from the family. The family counts each way out (`conn/handed.rs`). An
//!   exec or a spawn may pass the connection on, or a process may send a descriptor to another process. A process may
//!   leave the family with the connection, and a child may run on a member's memory. Requests to the kernel that the
//!   program would have to know of, such as an urgent byte, count in the same way.
//! - The program is the one that the process executed. If that program has executed another one in turn, it may have
//!   given the connection to a child first. So the process checks that the library will be loaded into the program.
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
