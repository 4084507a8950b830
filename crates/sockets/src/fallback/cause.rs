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
    /// The program goes on with calls that Sovia does not see (the native interface).
    Released,
    /// The connection is in an epoll instance in which other processes wait as well, or which another epoll
    /// instance watches. Only the kernel can report the connection's events.
    EpollSet,
    /// The process changes its user or its rights.
    Credentials,
    /// The process limits its address space.
    AddressSpace,
    /// The process puts itself under seccomp.
    Filter,
    /// A thread gets a descriptor table of its own, and another thread continues with the old descriptor table.
    Table,
    /// A reason keeps the connection on TCP for now (`sovia off`, or the settings of a service).
    Kept(Reason),
    /// The peer asks for the fallback.
    Peer,
}

impl Cause {
    /// Returns true if the process gives up all its VIs.
    pub(super) fn leaves_everything(self) -> bool {
        matches!(self, Cause::Credentials | Cause::AddressSpace | Cause::Filter | Cause::Table)
    }

    /// Returns true if the fallback need not be over for the next reads. This process keeps the connection, and its
    /// calls and epoll sets read and report the bytes as they arrive on TCP. Or another process gets the connection and
    /// reads TCP.
    pub(super) fn reads_on_tcp(self) -> bool {
        matches!(
            self,
            Cause::Call
                | Cause::Kept(_)
                | Cause::Peer
                | Cause::Exec
                | Cause::Spawn
                | Cause::Passed
                | Cause::PassedOnRecord
        )
    }

    /// Returns true if unknown processes may get the socket, or if a program that inherits the socket would have to
    /// know of the cause. Such a program must not give the connection a VI.
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
            Cause::Exec | Cause::Spawn => Reason::FallbackExec,
            Cause::Ulp => Reason::FallbackUlp,
            Cause::Passed | Cause::PassedOnRecord => Reason::FallbackPassed,
            Cause::Call | Cause::Released | Cause::EpollSet | Cause::Table => Reason::FallbackCall,
            Cause::Credentials => Reason::FallbackCredentials,
            Cause::AddressSpace => Reason::AddressSpace,
            Cause::Filter => Reason::Filter,
            Cause::Kept(reason) => reason,
            Cause::Peer => Reason::FallbackPeer,
        }
    }
}
