//! Causes of a fallback.

use sovia_control::Reason;

/// Cause for which a connection goes back to TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// This process executes a program, which inherits the connection.
    Exec,
    /// A child executes a program, which inherits the connection.
    Spawn,
    /// The kernel must process the stream (`TCP_ULP`).
    Ulp,
    /// The connection is sent to another process.
    Passed,
    /// The connection is sent to another process, and the family's memory records this.
    PassedOnRecord,
    /// The program makes a call that Sovia does not carry.
    Call,
    /// The program goes on with the kernel's calls, which Sovia does not see (the native interface).
    Released,
    /// The connection is in an epoll instance that other processes wait for as well, or that another instance
    /// watches. Only the kernel can report its events.
    Set,
    /// The process changes its user or its rights.
    Credentials,
    /// The process limits its address space.
    AddressSpace,
    /// The process puts itself under seccomp.
    Filter,
    /// A thread gets a descriptor table of its own, and another thread continues with the old one.
    Table,
    /// A reason keeps the connection on TCP for now (`sovia off`, or what a service forbids).
    Kept(Reason),
    /// The peer asks for the fallback.
    Peer,
}

impl Cause {
    /// Returns true if the process has no part in any VI afterwards.
    pub(super) fn leaves_everything(self) -> bool {
        matches!(self, Cause::Credentials | Cause::AddressSpace | Cause::Filter | Cause::Table)
    }

    /// Returns true if this process keeps the connection, and its calls go through Sovia.
    pub(super) fn stays_here(self) -> bool {
        matches!(self, Cause::Call | Cause::Set | Cause::Kept(_) | Cause::Peer)
    }

    /// Returns true if processes may get the socket without a record in the family's memory.
    pub(super) fn spreads(self) -> bool {
        !self.is_for_program()
            && !matches!(self, Cause::Peer | Cause::PassedOnRecord | Cause::Kept(_))
    }

    /// Returns true if another program gets the socket.
    pub(super) fn is_for_program(self) -> bool {
        matches!(self, Cause::Exec | Cause::Spawn)
    }

    pub(crate) fn reason(self) -> Reason {
        match self {
            Cause::Exec | Cause::Spawn => Reason::RetreatExec,
            Cause::Ulp => Reason::RetreatUlp,
            Cause::Passed | Cause::PassedOnRecord => Reason::RetreatPassed,
            Cause::Call | Cause::Released | Cause::Set | Cause::Table => Reason::RetreatCall,
            Cause::Credentials => Reason::RetreatCredentials,
            Cause::AddressSpace => Reason::AddressSpace,
            Cause::Filter => Reason::Filter,
            Cause::Kept(reason) => reason,
            Cause::Peer => Reason::RetreatPeer,
        }
    }
}
