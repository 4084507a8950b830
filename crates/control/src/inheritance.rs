//! Data about connections, which a process passes to the program that it executes.
//!
//! The data lies in a memory file with a descriptor in [`NUMBERS`]. Only the program that the writing process
//! executes uses the data. If this program is `sovia run`, it passes the data on to the program that it executes in
//! turn. For example, inetd executes `sovia run`, which executes a server.

use core::ops::Range;

/// Descriptors at which a program looks for the memory file.
pub const NUMBERS: Range<i32> = 1000..1004;
/// Lowest descriptor for the files that the data names. It is below 1024, because service managers lower the limit
/// on descriptors to 1024 before they execute a service.
pub const FILES_FROM: i32 = NUMBERS.end;
/// Maximum number of connections in the data. Further connections stay on TCP.
pub const CONNECTIONS_MAX: usize = 32;

const HEADER: usize = 10;
const COUNT: usize = HEADER - 1;
const EACH: usize = 3;
const WORDS: usize = HEADER + EACH * CONNECTIONS_MAX;
/// Length of the data in bytes.
pub const LEN: usize = WORDS * 8;
/// Magic number, with the version.
const MAGIC: u64 = u64::from_be_bytes(*b"sovia-i1");

/// Identity of a program's executable file: device and inode.
pub type Program = (u64, u64);

/// Inherited descriptor of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Descriptor number.
    pub fd: i32,
    /// Set if `connect` opened the connection.
    pub is_connector: bool,
    /// Number of the connection's record in the memory of the writer's family.
    pub index: u32,
    /// Generation of the record's slot.
    pub generation: u32,
    /// Cookie by which the kernel identifies the socket.
    pub cookie: u64,
}

/// The data that a process passes to the program that it executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    words: [u64; WORDS],
}

/// The data except for the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Process that wrote the data.
    pub pid: i32,
    /// Program that may read the data.
    pub program: Program,
    /// Number that identifies the layout of the records.
    pub layout: u64,
    /// File with the records of the writer's family.
    pub records: Passed,
    /// File with the locks of the writer's family.
    pub locks: Passed,
}

/// Inherited descriptor of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Descriptor number.
    pub fd: i32,
    /// Inode of the file. It shows if the descriptor number now belongs to another file.
    pub inode: u64,
}

impl Inheritance {
    /// Returns data without connections.
    pub fn new(head: Head) -> Inheritance {
        let mut words = [0; WORDS];
        words[..HEADER].copy_from_slice(&[
            MAGIC,
            head.layout,
            head.pid as u64,
            head.program.0,
            head.program.1,
            head.records.fd as u64,
            head.records.inode,
            head.locks.fd as u64,
            head.locks.inode,
            0,
        ]);
        Inheritance { words }
    }

    /// Decodes the bytes of a memory file. Returns `None` if the bytes have another format.
    pub fn decode(bytes: &[u8; LEN]) -> Option<Inheritance> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        (words[0] == MAGIC && words[COUNT] <= CONNECTIONS_MAX as u64)
            .then_some(Inheritance { words })
    }

    /// Returns the bytes for the memory file.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(&self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Returns the data except for the connections.
    pub fn head(&self) -> Head {
        let words = &self.words;
        Head {
            layout: words[1],
            pid: words[2] as i32,
            program: (words[3], words[4]),
            records: Passed { fd: words[5] as i32, inode: words[6] },
            locks: Passed { fd: words[7] as i32, inode: words[8] },
        }
    }

    /// Changes the program that may read the data to `program`, which the present reader executes.
    pub fn pass_on(&mut self, program: Program) {
        (self.words[3], self.words[4]) = program;
    }

    /// Adds a connection's descriptor. Returns false if the data has no room.
    pub fn add(&mut self, one: Inherited) -> bool {
        let n = self.words[COUNT] as usize;
        let Some(words) = self.words[HEADER..].chunks_exact_mut(EACH).nth(n) else { return false };
        words[0] = u64::from(one.is_connector) << 32 | u64::from(one.fd as u32);
        words[1] = u64::from(one.index) << 32 | u64::from(one.generation);
        words[2] = one.cookie;
        self.words[COUNT] += 1;
        true
    }

    /// Returns true if there are no connections.
    pub fn is_empty(&self) -> bool {
        self.words[COUNT] == 0
    }

    /// Returns the inherited descriptors of connections.
    pub fn each(&self) -> impl Iterator<Item = Inherited> {
        self.words[HEADER..].chunks_exact(EACH).take(self.words[COUNT] as usize).map(|words| {
            Inherited {
                fd: words[0] as i32,
                is_connector: words[0] >> 32 != 0,
                index: (words[1] >> 32) as u32,
                generation: words[1] as u32,
                cookie: words[2],
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const HEAD: Head = Head {
        pid: 7,
        program: (1, 2),
        layout: 3,
        records: Passed { fd: 900, inode: 1 << 40 },
        locks: Passed { fd: 901, inode: 9 },
    };

    fn one(fd: i32) -> Inherited {
        Inherited { fd, is_connector: fd % 2 == 1, index: 5, generation: u32::MAX, cookie: 1 << 63 }
    }

    #[test]
    fn bytes_tell_what_was_put_into_them() {
        let mut inheritance = Inheritance::new(HEAD);
        assert!(inheritance.is_empty());
        assert!((0..3).all(|fd| inheritance.add(one(fd))));
        inheritance.pass_on((8, 9));
        let read = Inheritance::decode(&inheritance.encode()).unwrap();
        assert_eq!(read.head(), Head { program: (8, 9), ..HEAD });
        assert_eq!(read.each().collect::<Vec<_>>(), (0..3).map(one).collect::<Vec<_>>());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let mut inheritance = Inheritance::new(HEAD);
        let added = (0..100).take_while(|&fd| inheritance.add(one(fd))).count();
        assert_eq!((added, inheritance.each().count()), (CONNECTIONS_MAX, CONNECTIONS_MAX));
    }

    #[test]
    fn other_files_are_none_of_these() {
        assert_eq!(Inheritance::decode(&[0; LEN]), None);
        let mut bytes = Inheritance::new(HEAD).encode();
        bytes[COUNT * 8] = CONNECTIONS_MAX as u8 + 1;
        assert_eq!(Inheritance::decode(&bytes), None);
    }
}
