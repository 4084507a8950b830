//! Reasons why a connection is on TCP, and reasons why Sovia dropped a message of a rendezvous.

/// Declares an enum whose values are counted in a page: fixed discriminants, a list of all values, and a sentence
/// for each value. The discriminant is the index of the value's counter in the page. The counter of a removed value
/// stays unused.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $value,)*
        }

        impl $name {
            /// All values, in the order of the discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns a short sentence for users, without a full stop.
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the index of the value's counter in a page.
            pub(crate) const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counters! {
    /// Reason why one end of a connection was on TCP when the connection ended.
    ///
    /// The discriminants are part of the page's layout. New reasons are added at the end, and no discriminant is
    /// used again.
    Reason {
        /// The peer's address does not belong to this host, or the peer's socket is in another network namespace.
        PeerNotLocal = 0, "the peer is on another machine, or in another network namespace";
        /// No process answered in the rendezvous. The peer has not loaded the library, makes no calls on the
        /// connection, or has ended.
        PeerPlain = 1, "the other end did not answer (does it run under Sovia?)";
        /// The connection ended before its rendezvous ended. Short connections gain nothing from a VI.
        ShortLived = 2, "closed before the two ends had found each other (too short to gain from a VI)";
        /// A rule of `--only` or `--except` keeps the connection on TCP.
        Rule = 3, "kept on TCP by a rule";
        /// Several processes have a descriptor of the connection.
        SharedByProcesses = 5, "shared by several processes";
        /// The program passed the connection to another program by exec.
        FallbackExec = 6, "went back to TCP: the program replaced itself with another program (exec)";
        /// The program attached an upper-layer protocol or a socket filter in the kernel.
        FallbackUlp = 9, "went back to TCP: the program lets the kernel process the stream (kernel TLS, socket filter)";
        /// The program sent a descriptor of the connection to another process by SCM_RIGHTS.
        FallbackPassed = 10, "went back to TCP: the descriptor was sent to another process";
        /// The program made a call on the connection that Sovia does not support on a VI.
        FallbackCall = 11, "went back to TCP: the program used a call that Sovia does not support";
        /// The two ends run different versions of the library.
        VersionMismatch = 13, "the other end runs a different version of Sovia";
        /// Sovia could not make or map a segment.
        NoMemory = 14, "cannot make or map shared memory (is there a limit on file size or memory?)";
        /// A table of fixed size had no free entry.
        TableFull = 15, "no free entry in Sovia's tables";
        /// The segment held values that no correct peer writes.
        Corrupt = 16, "the memory that the two ends share is corrupt";
        /// The program's limit on descriptors leaves none for the library.
        NoDescriptors = 17, "the limit on file descriptors leaves none for Sovia (ulimit -n)";
        /// The kernel does not let one of the two processes trace the other process, or the kernel gave no answer.
        NotTraceable = 18, "the two processes may not read each other's memory";
        /// The user of this process is not mapped in its user namespace, and so looks like every other unmapped
        /// user.
        UnknownUser = 19, "the ID of this process's user is not mapped in the user namespace";
        /// The program changed its user, groups, capabilities or namespaces.
        FallbackCredentials = 20, "went back to TCP: the program changed its user or its privileges";
        /// The program closed the descriptor by its own system call, and another socket now has the descriptor's
        /// number.
        Replaced = 21, "the program closed its descriptor by a direct system call, and another socket got the same number";
        /// `getpeername` failed.
        NotConnected = 22, "no longer connected when the two ends looked for each other";
        /// The program put itself under a seccomp filter, which may forbid system calls that Sovia needs.
        Filter = 23, "went back to TCP: the program installed a seccomp filter";
        /// The peer belongs to another user, with whom this process may not share memory.
        /// [`StatsPage`](crate::StatsPage) names the user.
        OtherUser = 25, "the other end belongs to another user";
        /// RLIMIT_AS is lower than the address space of a shared segment.
        AddressSpace = 27, "a limit on address space (ulimit -v) leaves no room for shared memory";
        /// Sovia could not start a thread for the connection.
        NoThread = 28, "Sovia cannot start a thread (is there a limit on processes?)";
        /// The kernel refused the connection, or the peer did not answer.
        NeverConnected = 29, "never connected: the connection was refused, or not answered";
        /// A relay process serves the connection, because the peer could not put unread bytes of the VI back on
        /// TCP.
        Relayed = 30, "continued through a relay process: the peer could not take the connection back to TCP";
        /// The peer moved the connection to TCP, for its own reason.
        FallbackPeer = 31, "went back to TCP: the peer asked for that";
        /// One direction ended before the rendezvous.
        HalfClosed = 32, "one direction was shut down before the two ends had found each other";
        /// The stdio streams of this libc read and write without calling Sovia's hooks.
        UnknownLibc = 33, "Sovia does not know this libc, whose stdio would bypass Sovia";
        /// The kernel refuses sock_diag: a sandbox allows no netlink socket.
        OwnerUnknown = 34, "the kernel does not report to this process which user owns the other end (is AF_NETLINK forbidden?)";
        /// A rule trusts other users, but no agent answers at the agent's path.
        NoAgent = 35, "the peer is on another machine, or in another network namespace, and no `sovia agent` runs here";
        /// The NIC in software that carried the connection has died, or the two NICs have lost each other.
        NicGone = 36, "went back to TCP: an agent that carried the connection ended, or the two agents lost each other";
        /// An agent has died and bytes may be missing, or the other host did not answer for too long. Or TCP failed
        /// while the two agents could not communicate.
        BrokenOff = 37, "broken off: an agent ended and bytes may be missing, or the other host did not answer for too long";
        /// A `respect-filters:` rule keeps the connection on TCP, or has moved it there.
        PacketFilter = 38, "a packet filter may stop packets of this connection (`sudo sovia doctor` names the filter)";
        /// A `respect-filters:` rule keeps the connection on TCP, because no agent reports what the filters let
        /// pass.
        NoFilterAgent = 39, "a rule respects packet filters, but no `sovia agent --filters` runs here to watch the filters";
        /// `sovia off` keeps the connection on TCP, or has moved it there.
        SwitchedOff = 40, "switched off by `sovia off`";
        /// A rule names a NIC in software, but no agent of this host has a NIC with this name.
        NoNic = 41, "no agent here has the name that the rule of --nic gives (`sovia agent --name`)";
        /// The connector granted the VI together with its request, and the acceptor sent or closed before it looked for
        /// requests.
        NotTaken = 42, "the other end did not take the VI that was offered with the first bytes";
        /// The connector's process has too few messages in flight for a NIC in software to be faster than TCP.
        FewMessages = 43, "too few small messages at the same time: TCP is faster than an agent";
        /// The NIC in software has the request of this end, but no offer of the other end's NIC.
        NotOffered = 44, "the other end's agent has not offered the connection";
    }
}

counters! {
    /// Reason why Sovia dropped a message of a rendezvous. Every user of the host can send messages to a rendezvous
    /// socket, so dropped messages are normal. They never affect a connection.
    Junk {
        /// No message of a rendezvous has this length.
        Size = 0, "of a wrong size";
        /// The segment lacks the seals that fix its size.
        Seal = 1, "with a segment that is not sealed";
        /// The message has too many or too few descriptors, or descriptors of the wrong kind.
        Descriptor = 2, "with missing or wrong descriptors";
        /// The connection to which the message belongs has ended, or has already found its peer.
        Stale = 3, "late: the connection had already ended, or found its peer";
        /// The message comes from a user that does not own the other end.
        User = 4, "from another user";
        /// The message has another protocol version.
        Version = 5, "of another protocol version";
        /// More messages arrived than Sovia reads at one time.
        Flood = 6, "more than Sovia reads at one time";
        /// The sender has not proved that it may trace this process.
        Unproven = 7, "from a process that may not read this process's memory";
    }
}

impl Reason {
    /// Returns the reason with this discriminant.
    pub fn of(number: u32) -> Option<Reason> {
        Self::ALL.iter().copied().find(|&reason| reason as u32 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn values_stand_in_the_order_of_their_numbers() {
        assert!(Reason::ALL.is_sorted_by(|a, b| a.index() < b.index()));
        assert!(Junk::ALL.is_sorted_by(|a, b| a.index() < b.index()));
    }

    #[test]
    fn number_of_a_reason_converts_back_to_the_reason() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::of(reason as u32), Some(reason));
        }
        assert_eq!(Reason::of(4), None, "that of a reason that is gone");
        assert_eq!(Reason::of(1000), None);
    }

    #[test]
    fn sentences_are_distinct_and_bare() {
        let all: std::vec::Vec<_> = Reason::ALL
            .iter()
            .map(|r| r.describe())
            .chain(Junk::ALL.iter().map(|j| j.describe()))
            .collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|text| !text.is_empty() && !text.ends_with('.')));
    }
}
