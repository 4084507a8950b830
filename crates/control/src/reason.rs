//! Why a connection is on TCP, and why a message at the meeting point was thrown away.

/// Declares an enum of counters: fixed discriminants, the list of all, a sentence for each. A discriminant is
/// the value's place among the counters of a page; places of values that are gone stay empty.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vmeta])* $variant = $value,)*
        }

        impl $name {
            /// Every value, in the order of the discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// A short sentence for people, without a full stop.
            pub const fn describe(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Its place among the counters of a page.
            pub(crate) const fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counters! {
    /// Why an end of a connection ended its life on TCP.
    ///
    /// The discriminants are part of the page's layout: new reasons go to the end, and a number
    /// is never used again for another one.
    Reason {
        /// The peer's address is not one of this host, or its socket is in another network namespace.
        PeerNotLocal = 0, "the peer is on another machine, or in another network namespace";
        /// No process answered at the meeting point: it runs without the library, does nothing with the connection, or is gone.
        PeerPlain = 1, "the other end did not answer (does it run under Sovia?)";
        /// Closed before both ends had met; too short to be worth it.
        ShortLived = 2, "closed before the two ends had found each other (too short to gain from a VI)";
        /// A rule of `--only` or `--except` keeps it on TCP.
        Rule = 3, "kept on TCP by a rule";
        /// Several processes hold the descriptor.
        SharedByProcesses = 5, "shared by several processes";
        /// The program handed it to another one by exec.
        RetreatExec = 6, "went back to TCP: the program replaced itself with another program (exec)";
        /// An upper-layer protocol or a socket filter was attached in the kernel.
        RetreatUlp = 9, "went back to TCP: the program lets the kernel process the stream (kernel TLS, socket filter)";
        /// The descriptor was sent to another process by SCM_RIGHTS.
        RetreatPassed = 10, "went back to TCP: the descriptor was sent to another process";
        /// The program used a call on it that Sovia does not carry.
        RetreatCall = 11, "went back to TCP: the program used a call that Sovia does not support";
        /// The two ends run different versions of the library.
        VersionMismatch = 13, "the other end runs a different version of Sovia";
        /// A segment could not be made or mapped.
        NoMemory = 14, "cannot make or map shared memory (is there a limit on file size or memory?)";
        /// A table of fixed size had no free entry.
        TableFull = 15, "no free entry in Sovia's tables";
        /// The segment held values that no correct peer writes.
        Corrupt = 16, "the memory that the two ends share is corrupt";
        /// The program's limit of descriptors leaves none for the library.
        NoDescriptors = 17, "the limit on file descriptors leaves none for Sovia (ulimit -n)";
        /// One of the two processes could not trace the other by the kernel's rule, or the kernel
        /// could not be asked.
        NotTraceable = 18, "the two processes may not read each other's memory";
        /// This process's user has no number in its user namespace, like every foreign one.
        UnknownUser = 19, "the ID of this process's user is not mapped in the user namespace";
        /// The program changed its user, groups, capabilities or namespaces.
        RetreatCredentials = 20, "went back to TCP: the program changed its user or its privileges";
        /// The number was closed by a system call of the program's own, and is another socket now.
        Replaced = 21, "the program closed its descriptor by a direct system call, and another socket got the same number";
        /// getpeername has failed.
        NotConnected = 22, "no longer connected when the two ends looked for each other";
        /// The program has put itself under a seccomp filter, which may forbid what Sovia needs.
        Filter = 23, "went back to TCP: the program installed a seccomp filter";
        /// Another user's memory is not shared; [`StatsPage`](crate::StatsPage) has which.
        OtherUser = 25, "the other end belongs to another user";
        /// RLIMIT_AS is lower than what a shared segment takes.
        AddressSpace = 27, "a limit on address space (ulimit -v) leaves no room for shared memory";
        /// No thread could be started for it.
        NoThread = 28, "Sovia cannot start a thread (is there a limit on processes?)";
        /// The kernel has refused it, or there was no answer.
        NeverConnected = 29, "never connected: the connection was refused, or not answered";
        /// A relay has it, since the peer could not put back on TCP what it had accepted.
        Relayed = 30, "continued through a relay process: the peer could not take the connection back to TCP";
        /// The peer has taken it back, for a reason of its own.
        RetreatPeer = 31, "went back to TCP: the peer asked for that";
        /// One direction had ended before the two ends had met.
        HalfClosed = 32, "one direction was shut down before the two ends had found each other";
        /// The streams of this libc read and write past the library.
        UnknownLibc = 33, "Sovia does not know this libc, whose stdio would bypass Sovia";
        /// sock_diag is refused: a sandbox lets no netlink socket through.
        OwnerUnknown = 34, "the kernel does not report to this process which user owns the other end (is AF_NETLINK forbidden?)";
        /// A rule trusts other users there, but no agent answers at its path.
        NoAgent = 35, "the peer is on another machine, or in another network namespace, and no `sovia agent` runs here";
        /// The NIC in software that carried it has died, or the two NICs have lost each other.
        NicGone = 36, "went back to TCP: an agent that carried the connection ended, or the two agents lost each other";
        /// An agent has died and something may be missing, the other host did not answer for too long, or TCP broke while the agents could not speak.
        BrokenOff = 37, "broken off: an agent ended and bytes may be missing, or the other host did not answer for too long";
        /// Kept on TCP, or taken back, by a rule `respect-filters:`.
        PacketFilter = 38, "a packet filter may stop packets of this connection (`sudo sovia doctor` names the filter)";
        /// Kept on TCP by a rule `respect-filters:`, since no agent reports what filters let pass.
        NoFilterAgent = 39, "a rule respects packet filters, but no `sovia agent --filters` runs here to watch the filters";
        /// Kept on TCP, or taken back, while `sovia off` holds.
        SwitchedOff = 40, "switched off by `sovia off`";
        /// The rules name a NIC in software, and no agent has one of that name here.
        NoNic = 41, "no agent here has the name that the rule of --nic gives (`sovia agent --name`)";
    }
}

counters! {
    /// Why a message at the meeting point was dropped. Its name is open to every user of the
    /// machine, so junk is expected there; it never touches a connection.
    Junk {
        /// Not as long as any message.
        Size = 0, "of a wrong size";
        /// A segment without the seals that forbid to change its size.
        Seal = 1, "with a segment that is not sealed";
        /// Too few, too many or the wrong kind of descriptors.
        Descriptor = 2, "with missing or wrong descriptors";
        /// About a connection that is gone or already met.
        Stale = 3, "late: the connection had already ended, or found its peer";
        /// From a user who does not own the other end.
        User = 4, "from another user";
        /// In a version of the protocol that is not ours.
        Version = 5, "of another protocol version";
        /// More messages than are read at one time.
        Flood = 6, "more than Sovia reads at one time";
        /// From a process that has not shown that it could trace this one.
        Unproven = 7, "from a process that may not read this process's memory";
    }
}

impl Reason {
    /// The reason with this discriminant.
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
    fn a_number_means_the_reason_that_has_it() {
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
