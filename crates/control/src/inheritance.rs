//! What a process under Sovia tells the program that it is about to become of connections which that inherits.
//!
//! It lies in a memory file with a number in [`NUMBERS`], and is believed by that one program alone: the process that
//! wrote it became it, without another program in between. `sovia run` stands in between where a program without
//! Sovia's environment, such as inetd, starts it, and passes it on.

use core::ops::Range;

/// The descriptor numbers under which a program looks for it.
pub const NUMBERS: Range<i32> = 1000..1004;
/// The first number for the files that it names. Service managers lower the limit to 1024 before they execute a service.
pub const FILES_FROM: i32 = NUMBERS.end;
/// Connections that it has room for; others stay on TCP.
pub const CONNECTIONS_MAX: usize = 32;

const HEADER: usize = 10;
const COUNT: usize = HEADER - 1;
const EACH: usize = 3;
const WORDS: usize = HEADER + EACH * CONNECTIONS_MAX;
/// How long it is, in bytes.
pub const LEN: usize = WORDS * 8;
/// Says what it is, and in which version.
const MAGIC: u64 = u64::from_be_bytes(*b"sovia-i1");

/// Which file a program is: device and inode.
pub type Program = (u64, u64);

/// A descriptor of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Its number.
    pub fd: i32,
    /// Whether `connect` opened the connection.
    pub is_connector: bool,
    /// Its place in the records of the family that had it.
    pub index: u32,
    /// Its life in that place.
    pub generation: u32,
    /// The kernel's number of the socket.
    pub cookie: u64,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    words: [u64; WORDS],
}

/// By which process, for which program, and where more is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The process.
    pub pid: i32,
    /// The file that it becomes.
    pub program: Program,
    /// How the records are laid out.
    pub layout: u64,
    /// The file with the records of its family.
    pub records: Passed,
    /// The file with the locks of its family.
    pub locks: Passed,
}

/// A file that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Its descriptor.
    pub fd: i32,
    /// Its inode: a number may come to be another file's.
    pub inode: u64,
}

impl Inheritance {
    /// Of no connection yet.
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

    /// What the bytes of a file say; `None` if it is not one of these.
    pub fn decode(bytes: &[u8; LEN]) -> Option<Inheritance> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        (words[0] == MAGIC && words[COUNT] <= CONNECTIONS_MAX as u64)
            .then_some(Inheritance { words })
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(&self.words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// All but the connections.
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

    /// It is for another program, which that one becomes in its turn.
    pub fn pass_on(&mut self, program: Program) {
        (self.words[3], self.words[4]) = program;
    }

    /// Adds a descriptor; false if there is no room.
    pub fn add(&mut self, one: Inherited) -> bool {
        let n = self.words[COUNT] as usize;
        let Some(words) = self.words[HEADER..].chunks_exact_mut(EACH).nth(n) else { return false };
        words[0] = u64::from(one.is_connector) << 32 | u64::from(one.fd as u32);
        words[1] = u64::from(one.index) << 32 | u64::from(one.generation);
        words[2] = one.cookie;
        self.words[COUNT] += 1;
        true
    }

    /// Whether it is of no connection.
    pub fn is_empty(&self) -> bool {
        self.words[COUNT] == 0
    }

    /// The descriptors.
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
