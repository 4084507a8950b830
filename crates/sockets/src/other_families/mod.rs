//! Connections that processes of other families have sent to this process in messages.
//!
//! A process that receives a connection does not know how many bytes the connection has carried, nor which other
//! processes have it. One of these processes may move bytes over TCP without counting the bytes. So a received
//! connection stays on TCP, with one exception. The receiver looks for the records of the sender's family
//! (`message.rs`). In its later calls it checks these records, until no process of that family has the connection any
//! more. Then only the receiver has the connection, and the connection may get a VI. The kernel knows how many bytes
//! the connection has carried until then.
//!
//! One condition must hold: no other process has got the connection from the family. The family counts each event by
//! which another process may get the connection (`conn/handed.rs`). Such an event is the exec or the start of a
//! program that does not join the family, or a message with a descriptor. A process may also leave the family with
//! the connection, and a child may run on a member's memory. The family counts in the same way each request to the
//! kernel that the receiver would have to know of, such as an urgent byte.
//!
//! The important case is a server that accepts in one process and sends each connection to another, such as Node's
//! cluster. A program that a process of the family executes needs none of this, because it joins the family
//! ([`crate::exec`]).

mod alone;
mod families;
mod message;
mod spread;

pub(crate) use alone::{is_alone, is_for_kernel};
pub(crate) use families::forget;
pub(crate) use message::{looked_at, pass, received};
pub use spread::taken;
pub(crate) use spread::{shares_memory, spread};
