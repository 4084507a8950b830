//! What a file says of itself: where its records lie, and where in a record which word.

use super::{AT, Field, HEAD, PLACES, RECORDS_MAX, SPAN_MAX, VERSION};
use crate::StatsPage;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// "SOVIABRD" as the bytes of a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"SOVIABRD");

/// Words of a legend: what is left of the first page.
pub const LEGEND_WORDS: usize = (HEAD - AT) / 8;

const NAME_WORDS: usize = 4;
const NAME: usize = 7;
const FIELDS_COUNT: usize = NAME + NAME_WORDS;
const FIELDS: usize = FIELDS_COUNT + 1;
const FIELDS_MAX: usize = 64;
const FILES: usize = FIELDS + FIELDS_MAX;
/// More than any word's number.
const WORDS_MAX: usize = 96;
const _: () = assert!((super::Word::ALL[super::Word::ALL.len() - 1] as usize) < WORDS_MAX);
/// Other files that a family's first one names.
const FILES_MAX: usize = (LEGEND_WORDS - FILES) / 2;

/// Bytes of a process's entry in a family's list.
const MEMBER: usize = 8;

/// Said of an entry for a file that is being written.
const TAKEN: u64 = 1 << 62;
const THERE: u64 = 1 << 63;

/// In the place of an offset: there is none.
pub const ABSENT: u32 = 0;

/// Where what lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Which of its family's files it is; 0: the first, with the processes and the totals.
    pub number: u32,
    /// The first record.
    pub records_at: u32,
    /// Bytes from one to the next.
    pub stride: u32,
    /// How many there are.
    pub count: u32,
    /// A bit for each that is in use.
    pub used_at: u32,
    /// The family's processes: how many places have been used, and for each a process id. Both are of 32 bits, and as many
    /// more follow.
    pub members_at: u32,
    /// How many places there are for them.
    pub members: u32,
    /// The [`StatsPage`] of the family, or [`ABSENT`].
    pub totals_at: u32,
}

/// A file of the family's that a process has, beside the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its descriptor in the process that has made it, and in those forked later.
    pub fd: i32,
    /// Which file it is.
    pub inode: u64,
}

/// A process of a family, as the list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its place, by which it is named among the [`Holders`](super::Holders) of a connection.
    pub place: u32,
    /// Its id, as it calls itself.
    pub pid: i32,
}

/// Why a file shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as one that shows connections.
    Magic,
    /// It is of another version of Sovia, which is given, that means other things by its words.
    Version(u32),
    /// It says something that no process under Sovia writes.
    Nonsense,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => write!(
                f,
                "has no schema (an older version of Sovia, or another program, wrote the page)"
            ),
            Self::Version(version) => write!(
                f,
                "is of another version of Sovia (page version {version}, this program reads {VERSION})"
            ),
            Self::Nonsense => write!(f, "is corrupt (no process under Sovia writes such values)"),
        }
    }
}

impl core::error::Error for Fault {}

/// What a file says of itself, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legend {
    /// Where what lies.
    pub shape: Shape,
    /// The inode of the file with the locks by which the family's processes know which of them live; 0: there is none.
    pub locks: u64,
    /// The version of the library.
    pub library: [u8; NAME_WORDS * 8],
    /// By the words' numbers.
    fields: [Option<Field>; WORDS_MAX],
    /// The part of a record in which its words lie.
    span: (u32, u32),
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Legend {
    /// Writes a legend into zeroed words, before any other process is to see it.
    ///
    /// # Panics
    /// With more fields than there is room for: a fault of the library's.
    pub fn write(
        words: &[AtomicU64; LEGEND_WORDS],
        shape: &Shape,
        locks: u64,
        library: &str,
        fields: &[Field],
    ) {
        let put = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        assert!(fields.len() <= FIELDS_MAX);
        put(1, pair(VERSION, shape.number));
        put(2, pair(shape.records_at, shape.stride));
        put(3, pair(shape.count, shape.used_at));
        put(4, pair(shape.members_at, shape.members));
        put(5, pair(shape.totals_at, 0));
        put(6, locks);
        let mut name = [0; NAME_WORDS * 8];
        let len = library.len().min(name.len());
        name[..len].copy_from_slice(&library.as_bytes()[..len]);
        for (i, chunk) in name.chunks_exact(8).enumerate() {
            put(NAME + i, u64::from_ne_bytes(core::array::from_fn(|at| chunk[at])));
        }
        put(FIELDS_COUNT, fields.len() as u64);
        for (i, field) in fields.iter().enumerate() {
            put(FIELDS + i, field.encode());
        }
        // Last: a reader that sees this sees all of it.
        words[0].store(MAGIC, Ordering::Release);
    }

    /// Notes in a family's first file that a process has another one. False if there is no room.
    pub fn add_file(words: &[AtomicU64; LEGEND_WORDS], file: File) -> bool {
        let entries = words[FILES..].chunks_exact(2).take(FILES_MAX);
        for entry in entries {
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            if entry[0].compare_exchange(0, TAKEN, success, failure).is_ok() {
                entry[1].store(file.inode, Ordering::Relaxed);
                entry[0].store(THERE | u64::from(file.fd as u32), Ordering::Release);
                return true;
            }
        }
        false
    }

    /// The legend in a file's first bytes; the file is so many bytes long.
    ///
    /// # Errors
    /// All of [`Fault`].
    pub fn read(head: &[u8; HEAD], file_len: u64) -> Result<Legend, Fault> {
        let word = |at: usize| word(head, at);
        if word(0) != MAGIC {
            return Err(Fault::Magic);
        }
        let (version, number) = unpair(word(1));
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        let ((records_at, stride), (count, used_at)) = (unpair(word(2)), unpair(word(3)));
        let ((members_at, members), (totals_at, _)) = (unpair(word(4)), unpair(word(5)));
        let shape =
            Shape { number, records_at, stride, count, used_at, members_at, members, totals_at };
        let mut library = [0; NAME_WORDS * 8];
        for (i, chunk) in library.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&word(NAME + i).to_ne_bytes());
        }
        let mut fields = [None; WORDS_MAX];
        let said = word(FIELDS_COUNT).min(FIELDS_MAX as u64) as usize;
        for field in (0..said).filter_map(|i| Field::decode(word(FIELDS + i))) {
            fields[field.word as usize] = Some(field);
        }
        let ends = || {
            fields.iter().flatten().map(|field| {
                (u64::from(field.at), u64::from(field.at) + field.width.bytes() as u64)
            })
        };
        let first = ends().map(|(at, _)| at).min().unwrap_or(0);
        let end = ends().map(|(_, end)| end).max().unwrap_or(0);
        let fits = shape.fits(file_len) && end <= u64::from(stride);
        if !fits || end - first > SPAN_MAX as u64 || end == 0 {
            return Err(Fault::Nonsense);
        }
        let span = (first as u32, end as u32);
        Ok(Legend { shape, locks: word(6), library, fields, span })
    }

    /// Other files of the family's, in the first bytes of its first one.
    pub fn files(head: &[u8; HEAD]) -> impl Iterator<Item = File> {
        (0..FILES_MAX).filter_map(|i| {
            let (fd, inode) = (word(head, FILES + 2 * i), word(head, FILES + 2 * i + 1));
            (fd & THERE != 0).then_some(File { fd: fd as u32 as i32, inode })
        })
    }

    /// Returns the family's processes, of its first file. `read` fills bytes from a place in the file on; false if it
    /// cannot.
    pub fn members(&self, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Vec<Member> {
        let at = u64::from(self.shape.members_at);
        let mut count = [0; 4];
        if self.shape.members == 0 || !read(at, &mut count) {
            return Vec::new();
        }
        let count = u32::from_ne_bytes(count).min(self.shape.members);
        let mut bytes = alloc::vec![0; count as usize * MEMBER];
        if !read(at + MEMBER as u64, &mut bytes) {
            return Vec::new();
        }
        let pids = bytes.chunks_exact(MEMBER).map(|entry| entry.first_chunk());
        let members = (0..).zip(pids).filter_map(|(place, pid)| {
            let pid = i32::from_ne_bytes(*pid?);
            (pid > 0).then_some(Member { place, pid })
        });
        members.collect()
    }

    /// The numbers of the records that are in use, in the file's first bytes.
    pub fn used(&self, head: &[u8; HEAD]) -> impl Iterator<Item = u32> {
        let (at, count) = (self.shape.used_at as usize, self.shape.count);
        (0..count).filter(move |&n| {
            let byte = head.get(at + n as usize / 64 * 8..).and_then(|rest| rest.first_chunk());
            byte.is_some_and(|bytes| u64::from_ne_bytes(*bytes) >> (n % 64) & 1 != 0)
        })
    }

    /// Where in the file the words of a record lie: the first of these bytes, and how many they are. At most
    /// [`SPAN_MAX`].
    pub fn place_of(&self, record: u32) -> (u64, usize) {
        let at =
            u64::from(self.shape.records_at) + u64::from(record) * u64::from(self.shape.stride);
        (at + u64::from(self.span.0), (self.span.1 - self.span.0) as usize)
    }

    /// What a word says, in those bytes; `None` if records have no such word.
    pub(super) fn value(&self, bytes: &[u8], word: super::Word) -> Option<u64> {
        let field = self.fields[word as usize].as_ref()?;
        Some(Field { at: field.at - self.span.0, ..*field }.value(bytes))
    }

    /// The version of the library, as text.
    pub fn library(&self) -> &str {
        let len = self.library.iter().position(|&byte| byte == 0).unwrap_or(self.library.len());
        let text = core::str::from_utf8(&self.library[..len]).unwrap_or("?");
        if text.bytes().all(|byte| byte.is_ascii_graphic()) { text } else { "?" }
    }
}

impl Shape {
    /// Whether all of it lies within a file of that length, and what is read first within its first page.
    fn fits(&self, file_len: u64) -> bool {
        let (count, stride) = (u64::from(self.count), u64::from(self.stride));
        let end = |at: u32, len: u64| u64::from(at) + len;
        let totals = end(self.totals_at, StatsPage::SIZE as u64);
        self.count <= RECORDS_MAX
            && self.members <= PLACES
            && end(self.records_at, count * stride) <= file_len
            && end(self.used_at, count.div_ceil(64) * 8) <= HEAD as u64
            && end(self.members_at, (u64::from(self.members) + 1) * MEMBER as u64) <= file_len
            && (self.totals_at == ABSENT || totals <= file_len)
    }
}

fn word(head: &[u8; HEAD], at: usize) -> u64 {
    let from = AT + at * 8;
    let bytes = head.get(from..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
