//! Why a connection goes back to TCP.

use sovia_control::Reason;

/// Why a connection goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is inherited by another program, which this process becomes.
    Exec,
    /// It is inherited by another program, which a child becomes.
    Spawn,
    /// The kernel is to process the stream.
    Ulp,
    /// It is sent to another process.
    Passed,
    /// It is sent to another process, and that is on record.
    PassedOnRecord,
    /// A call that Sovia does not carry.
    Call,
    /// It is in an epoll instance that others wait for as well, or wait for itself: of that the kernel alone
    /// can tell.
    Set,
    /// The process changes its user or its rights.
    Credentials,
    /// The process limits its address space.
    AddressSpace,
    /// The process puts itself under a filter of system calls.
    Filter,
    /// A thread gets a table of descriptors of its own, and another one goes on with the old.
    Table,
    /// Something keeps it on TCP for now (`sovia off`, or what a service forbids).
    Kept(Reason),
    /// The peer asks for it.
    Peer,
}

impl Cause {
    /// Whether the process has no part in any VI afterwards.
    pub(super) fn leaves_everything(self) -> bool {
        matches!(self, Cause::Credentials | Cause::AddressSpace | Cause::Filter | Cause::Table)
    }

    /// Whether processes may get the socket of which the family has no record.
    pub(super) fn spreads(self) -> bool {
        !self.is_for_program()
            && !matches!(self, Cause::Peer | Cause::PassedOnRecord | Cause::Kept(_))
    }

    /// Whether another program gets the socket.
    pub(super) fn is_for_program(self) -> bool {
        matches!(self, Cause::Exec | Cause::Spawn)
    }

    pub(crate) fn reason(self) -> Reason {
        match self {
            Cause::Exec | Cause::Spawn => Reason::RetreatExec,
            Cause::Ulp => Reason::RetreatUlp,
            Cause::Passed | Cause::PassedOnRecord => Reason::RetreatPassed,
            Cause::Call | Cause::Set | Cause::Table => Reason::RetreatCall,
            Cause::Credentials => Reason::RetreatCredentials,
            Cause::AddressSpace => Reason::AddressSpace,
            Cause::Filter => Reason::Filter,
            Cause::Kept(reason) => reason,
            Cause::Peer => Reason::RetreatPeer,
        }
    }
}
