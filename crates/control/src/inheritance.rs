//! Data that a process passes to the program that it executes or starts: its connections, and the shared memory in
//! which they lie.
//!
//! The data lies in a memory file with a descriptor in [`NUMBERS`]. The program joins the process's family, like a
//! forked child, and continues on the connections' VIs. If the program is `sovia run`, it leaves the data to the
//! program that it executes in turn. For example, inetd executes `sovia run`, which executes a server.

use core::ops::Range;

/// Descriptors at which a program looks for the memory file.
pub const NUMBERS: Range<i32> = 1000..1004;
/// Lowest descriptor for the files that the data names. It is below 1024, because service managers lower the limit
/// on descriptors to 1024 before they execute a service.
pub const FILES_FROM: i32 = NUMBERS.end;
/// Maximum number of connections in the data.
pub const CONNECTIONS_MAX: usize = 256;
/// Maximum number of segments in the data.
pub const SEGMENTS_MAX: usize = 32;
/// Maximum number of descriptors that show peers that the process lives.
pub const PIPE_ENDS_MAX: usize = 8;
/// Number of a process's doorbells, and of its peer's doorbells in a segment.
pub const DOORBELLS: usize = 6;
/// Number of descriptors that report a peer's death.
pub const NOTICES: usize = 2;
/// Number of a process's notification sockets for one peer of another user.
pub const NOTIFICATION_SOCKETS: usize = DOORBELLS + 1;

const MAGIC_AT: usize = 0;
const PID_AT: usize = 1;
const BUILD_AT: usize = 2;
const RECORDS_AT: usize = 3;
const LOCKS_AT: usize = 6;
const SLOT_AT: usize = 8;
const DOORBELLS_AT: usize = 9;
const PIPE_ENDS_AT: usize = DOORBELLS_AT + DOORBELLS;
const COUNTS_AT: usize = PIPE_ENDS_AT + PIPE_ENDS_MAX;
const SEGMENTS_AT: usize = COUNTS_AT + 2;
const EACH_SEGMENT: usize = 8 + DOORBELLS + NOTICES + NOTIFICATION_SOCKETS;
const CONNECTIONS_AT: usize = SEGMENTS_AT + EACH_SEGMENT * SEGMENTS_MAX;
const EACH: usize = 3;
const WORDS: usize = CONNECTIONS_AT + EACH * CONNECTIONS_MAX;
/// Length of the data in bytes.
pub const LEN: usize = WORDS * 8;
/// Magic number, with the version.
const MAGIC: u64 = u64::from_be_bytes(*b"sovia-i3");

/// Descriptor of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Descriptor number in the process that wrote the data.
    pub fd: i32,
    /// Set if the connection has its VI.
    pub is_attached: bool,
    /// Set if the record counts the program as one outside the family, until the program joins the family.
    pub is_counted: bool,
    /// Number of the connection's record in the family's memory.
    pub index: u32,
    /// Generation of the record's slot.
    pub generation: u32,
    /// Cookie by which the kernel identifies the socket.
    pub cookie: u64,
}

/// A segment in which connections have their VIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index in the table of pairs.
    pub index: u32,
    /// Side of the segment that the family uses.
    pub side: u32,
    /// Process id and nonce of the peer.
    pub peer: (i32, u64),
    /// Address at which the segment must be mapped.
    pub base: u64,
    /// The segment's file.
    pub file: Passed,
    /// The peer's doorbells.
    pub doorbells: [i32; DOORBELLS],
    /// Descriptors that report the peer's death.
    pub notices: [i32; NOTICES],
    /// The peer, if it belongs to another user.
    pub other_user: Option<OtherUser>,
}

/// A peer that shares memory only because the rules trust its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherUser {
    /// The peer's user id.
    pub uid: u32,
    /// Set if the agent introduced the two processes.
    pub is_by_agent: bool,
    /// The process's notification sockets for this peer. The last one shows the peer that the process lives.
    pub notification_sockets: [i32; NOTIFICATION_SOCKETS],
}

/// The data except for segments and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Process that wrote the data, and that executes the program. The program has the same process id.
    pub pid: i32,
    /// Number of the library's build. Another build may have another layout of the shared memory.
    pub build: u64,
    /// File with the records of the family.
    pub records: Passed,
    /// Address at which the records must be mapped.
    pub records_base: u64,
    /// File with the locks of the family.
    pub locks: Passed,
    /// Process slot that is reserved for the program.
    pub slot: u32,
    /// The process's doorbells; negative for a doorbell that does not exist.
    pub doorbells: [i32; DOORBELLS],
    /// Descriptors that show peers that the process or its program lives; negative for unused entries.
    pub pipe_ends: [i32; PIPE_ENDS_MAX],
}

/// Inherited descriptor of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Descriptor number.
    pub fd: i32,
    /// Inode of the file. It shows if the descriptor number now belongs to another file.
    pub inode: u64,
}

/// The data that a process passes to a program, in the bytes of its memory file.
#[derive(Debug)]
pub struct Inheritance<'b> {
    bytes: &'b mut [u8],
}

fn word_of(fd: i32) -> u64 {
    fd as u32 as u64
}

impl<'b> Inheritance<'b> {
    /// Writes data without segments and connections to `bytes`, whose length must be [`LEN`].
    pub fn new(bytes: &'b mut [u8], head: Head) -> Inheritance<'b> {
        bytes.fill(0);
        let mut data = Inheritance { bytes };
        let words = [
            MAGIC,
            word_of(head.pid),
            head.build,
            word_of(head.records.fd),
            head.records.inode,
            head.records_base,
            word_of(head.locks.fd),
            head.locks.inode,
            u64::from(head.slot),
        ];
        let lists = head.doorbells.into_iter().chain(head.pipe_ends).map(word_of);
        data.set(0, words.into_iter().chain(lists));
        data
    }

    /// Returns the data in the bytes of a memory file. `None` if the bytes have another format.
    pub fn decode(bytes: &'b mut [u8]) -> Option<Inheritance<'b>> {
        let data = Inheritance { bytes };
        let is_data = data.bytes.len() == LEN
            && data.word(MAGIC_AT) == MAGIC
            && data.word(COUNTS_AT) <= SEGMENTS_MAX as u64
            && data.word(COUNTS_AT + 1) <= CONNECTIONS_MAX as u64;
        is_data.then_some(data)
    }

    /// Returns the bytes for the memory file.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn word(&self, at: usize) -> u64 {
        let bytes = self.bytes.get(at * 8..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    /// Writes words from number `at` on.
    fn set(&mut self, at: usize, words: impl Iterator<Item = u64>) {
        let room = self.bytes.get_mut(at * 8..).unwrap_or_default();
        for (bytes, word) in room.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
    }

    fn fds<const N: usize>(&self, at: usize) -> [i32; N] {
        core::array::from_fn(|n| self.word(at + n) as i32)
    }

    fn passed(&self, at: usize) -> Passed {
        Passed { fd: self.word(at) as i32, inode: self.word(at + 1) }
    }

    /// Returns the data except for segments and connections.
    pub fn head(&self) -> Head {
        Head {
            pid: self.word(PID_AT) as i32,
            build: self.word(BUILD_AT),
            records: self.passed(RECORDS_AT),
            records_base: self.word(RECORDS_AT + 2),
            locks: self.passed(LOCKS_AT),
            slot: self.word(SLOT_AT) as u32,
            doorbells: self.fds(DOORBELLS_AT),
            pipe_ends: self.fds(PIPE_ENDS_AT),
        }
    }

    /// Adds a segment. Returns false if the data has no room.
    pub fn add_segment(&mut self, one: Segment) -> bool {
        let n = self.word(COUNTS_AT) as usize;
        if n >= SEGMENTS_MAX {
            return false;
        }
        let words = [
            u64::from(one.index),
            u64::from(one.side),
            word_of(one.peer.0),
            one.peer.1,
            one.base,
            word_of(one.file.fd),
            one.file.inode,
        ];
        let user = one
            .other_user
            .map_or(0, |user| 1 << 32 | u64::from(user.is_by_agent) << 33 | u64::from(user.uid));
        let notification_sockets =
            one.other_user.map_or([-1; NOTIFICATION_SOCKETS], |user| user.notification_sockets);
        let fds =
            one.doorbells.into_iter().chain(one.notices).chain(notification_sockets).map(word_of);
        let words = words.into_iter().chain([user]);
        self.set(SEGMENTS_AT + n * EACH_SEGMENT, words.chain(fds));
        self.set(COUNTS_AT, [n as u64 + 1].into_iter());
        true
    }

    /// Adds a connection's descriptor. Returns false if the data has no room.
    pub fn add(&mut self, one: Inherited) -> bool {
        let n = self.word(COUNTS_AT + 1) as usize;
        if n >= CONNECTIONS_MAX {
            return false;
        }
        let flags = u64::from(one.is_attached) << 32 | u64::from(one.is_counted) << 33;
        let words = [
            word_of(one.fd) | flags,
            u64::from(one.index) << 32 | u64::from(one.generation),
            one.cookie,
        ];
        self.set(CONNECTIONS_AT + n * EACH, words.into_iter());
        self.set(COUNTS_AT + 1, [n as u64 + 1].into_iter());
        true
    }

    /// Returns the segments.
    pub fn segments(&self) -> impl Iterator<Item = Segment> {
        let count = self.word(COUNTS_AT) as usize;
        (0..count).map(|n| SEGMENTS_AT + n * EACH_SEGMENT).map(|at| Segment {
            index: self.word(at) as u32,
            side: self.word(at + 1) as u32,
            peer: (self.word(at + 2) as i32, self.word(at + 3)),
            base: self.word(at + 4),
            file: self.passed(at + 5),
            other_user: self.other_user(at),
            doorbells: self.fds(at + 8),
            notices: self.fds(at + 8 + DOORBELLS),
        })
    }

    /// Returns the peer of the segment whose words begin at `at`, if the peer belongs to another user.
    fn other_user(&self, at: usize) -> Option<OtherUser> {
        let word = self.word(at + 7);
        (word >> 32 & 1 != 0).then(|| OtherUser {
            uid: word as u32,
            is_by_agent: word >> 33 & 1 != 0,
            notification_sockets: self.fds(at + 8 + DOORBELLS + NOTICES),
        })
    }

    /// Returns the descriptors of connections.
    pub fn each(&self) -> impl Iterator<Item = Inherited> {
        let count = self.word(COUNTS_AT + 1) as usize;
        (0..count).map(|n| CONNECTIONS_AT + n * EACH).map(|at| Inherited {
            fd: self.word(at) as i32,
            is_attached: self.word(at) >> 32 & 1 != 0,
            is_counted: self.word(at) >> 33 & 1 != 0,
            index: (self.word(at + 1) >> 32) as u32,
            generation: self.word(at + 1) as u32,
            cookie: self.word(at + 2),
        })
    }

    /// Returns all descriptors that the data names, except those of connections.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> {
        let head = self.head();
        let own = [head.records.fd, head.locks.fd]
            .into_iter()
            .chain(head.doorbells)
            .chain(head.pipe_ends);
        let of_segments = self.segments().flat_map(|one| {
            let notification_sockets =
                one.other_user.map_or([-1; NOTIFICATION_SOCKETS], |user| user.notification_sockets);
            core::iter::once(one.file.fd)
                .chain(one.doorbells)
                .chain(one.notices)
                .chain(notification_sockets)
        });
        own.chain(of_segments).filter(|&fd| fd >= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const HEAD: Head = Head {
        pid: 7,
        build: 3,
        records: Passed { fd: 900, inode: 1 << 40 },
        records_base: 1 << 44,
        locks: Passed { fd: 901, inode: 9 },
        slot: 17,
        doorbells: [902, -1, 903, 904, -1, 905],
        pipe_ends: [906, -1, -1, -1, -1, -1, -1, -1],
    };

    fn one(fd: i32) -> Inherited {
        let (is_attached, is_counted) = (fd & 1 != 0, fd & 2 != 0);
        Inherited { fd, is_attached, is_counted, index: 5, generation: u32::MAX, cookie: 1 << 63 }
    }

    /// Returns a segment. The first one is shared with another user's process.
    fn segment(index: u32) -> Segment {
        let notification_sockets = [919, 920, 921, 922, 923, 924, 925];
        Segment {
            other_user: (index == 0).then_some(OtherUser {
                uid: u32::MAX,
                is_by_agent: true,
                notification_sockets,
            }),
            index,
            side: index % 2,
            peer: (77, u64::MAX),
            base: 1 << 45,
            file: Passed { fd: 910, inode: 4 },
            doorbells: [911, 912, 913, 914, 915, 916],
            notices: [917, 918],
        }
    }

    #[test]
    fn encoded_inheritance_is_decoded_unchanged() {
        let mut bytes = std::vec![7; LEN];
        let mut inheritance = Inheritance::new(&mut bytes, HEAD);
        assert!((0..4).all(|fd| inheritance.add(one(fd))));
        assert!((0..2).all(|index| inheritance.add_segment(segment(index))));
        let mut copy = inheritance.bytes().to_vec();
        let read = Inheritance::decode(&mut copy).unwrap();
        assert_eq!(read.head(), HEAD);
        assert_eq!(read.each().collect::<Vec<_>>(), (0..4).map(one).collect::<Vec<_>>());
        assert_eq!(read.segments().collect::<Vec<_>>(), (0..2).map(segment).collect::<Vec<_>>());
        let mut named: Vec<i32> = read.descriptors().collect();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named, (900..907).chain(910..926).collect::<Vec<_>>());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut bytes = std::vec![0; LEN];
        let mut inheritance = Inheritance::new(&mut bytes, HEAD);
        let added = (0..1000).take_while(|&fd| inheritance.add(one(fd))).count();
        assert_eq!((added, inheritance.each().count()), (CONNECTIONS_MAX, CONNECTIONS_MAX));
        let added = (0..1000).take_while(|&n| inheritance.add_segment(segment(n))).count();
        assert_eq!((added, inheritance.segments().count()), (SEGMENTS_MAX, SEGMENTS_MAX));
    }

    #[test]
    fn other_files_are_none_of_these() {
        assert!(Inheritance::decode(&mut [0; LEN]).is_none());
        let mut bytes = std::vec![0; LEN];
        Inheritance::new(&mut bytes, HEAD);
        assert!(Inheritance::decode(&mut bytes[..LEN - 1]).is_none());
        for count in [COUNTS_AT, COUNTS_AT + 1] {
            let mut bytes = bytes.clone();
            bytes[count * 8 + 1] = 2;
            assert!(Inheritance::decode(&mut bytes).is_none());
        }
        assert!(Inheritance::decode(&mut bytes).is_some());
    }
}
