//! The schema of a statistics file: the positions of the records, and of the words in a record.

use super::{AT, Field, HEAD, PROCESS_SLOTS, RECORDS_MAX, SPAN_MAX, VERSION};
use crate::StatsPage;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// "SOVIABRD" as the bytes of a little-endian number.
const MAGIC: u64 = u64::from_le_bytes(*b"SOVIABRD");

/// Number of words of a schema. A schema fills the first page from [`AT`] to the page's end.
pub const SCHEMA_WORDS: usize = (HEAD - AT) / 8;

const NAME_WORDS: usize = 4;
const NAME: usize = 7;
const FIELDS_COUNT: usize = NAME + NAME_WORDS;
const FIELDS: usize = FIELDS_COUNT + 1;
const FIELDS_MAX: usize = 64;
const FILES: usize = FIELDS + FIELDS_MAX;
/// Upper limit of the words' numbers.
const WORDS_MAX: usize = 96;
const _: () = assert!((super::Word::ALL[super::Word::ALL.len() - 1] as usize) < WORDS_MAX);
/// Maximum number of other files that a family's first file lists.
const FILES_MAX: usize = (SCHEMA_WORDS - FILES) / 2;

/// Size of a process's entry in a family's list, in bytes.
const PROCESS_ENTRY: usize = 8;

/// Mark of an entry for a file while a process writes the entry. `THERE` is the mark of a complete entry.
const TAKEN: u64 = 1 << 62;
const THERE: u64 = 1 << 63;

/// Offset that means that the file does not have the part.
pub const ABSENT: u32 = 0;

/// Positions of the parts of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of the file in its family. File 0 is the first one, with the list of processes and the totals.
    pub number: u32,
    /// Offset of the first record.
    pub records_at: u32,
    /// Distance from one record to the next, in bytes.
    pub stride: u32,
    /// Number of records.
    pub count: u32,
    /// Offset of the bitmap of records in use.
    pub used_at: u32,
    /// Offset of the family's list of processes. The list has entries of 8 bytes, whose first 4 bytes hold a
    /// number. The first entry holds the number of process slots ever used. Then each slot has an entry with a
    /// process id.
    pub processes_at: u32,
    /// Number of process slots for which the list has room.
    pub process_slots: u32,
    /// Offset of the family's [`StatsPage`], or [`ABSENT`].
    pub totals_at: u32,
}

/// Statistics file of a family, other than the family's first file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Descriptor of the file, in the process that made the file and in processes forked later.
    pub fd: i32,
    /// Inode of the file.
    pub inode: u64,
}

/// Entry of a family's list of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// Process slot, by which [`References`](super::References) names the process.
    pub slot: u32,
    /// Process id in the process's own PID namespace.
    pub pid: i32,
}

/// Reason why a reader cannot use a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The file does not begin with a schema.
    Magic,
    /// Another version of Sovia wrote the file, with this version of the words' meanings.
    Version(u32),
    /// The file has values that no process under Sovia writes.
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

/// Schema of a statistics file. All positions lie within the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Positions of the parts.
    pub shape: Shape,
    /// Inode of the file with the family's locks. The locks show which processes are alive. 0 if there is no such
    /// file.
    pub locks: u64,
    /// Version of the library.
    pub library: [u8; NAME_WORDS * 8],
    /// Positions of the words, by the words' numbers.
    fields: [Option<Field>; WORDS_MAX],
    /// Offsets in a record of its first word, and of the end of its last word.
    span: (u32, u32),
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn unpair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Schema {
    /// Writes a schema into zeroed words, before any other process can see the words.
    ///
    /// # Panics
    /// If there are more fields than the schema has room for, which is an error in the library.
    pub fn write(
        words: &[AtomicU64; SCHEMA_WORDS],
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
        put(4, pair(shape.processes_at, shape.process_slots));
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
        // The magic number is stored last: a reader that sees the magic number also sees all other words.
        words[0].store(MAGIC, Ordering::Release);
    }

    /// Adds `file` to the list of other files in a family's first file. Returns false if the list has no room.
    pub fn add_file(words: &[AtomicU64; SCHEMA_WORDS], file: File) -> bool {
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

    /// Reads and checks the schema in the first page (`head`) of a file with `file_len` bytes.
    ///
    /// # Errors
    /// All of [`Fault`].
    pub fn read(head: &[u8; HEAD], file_len: u64) -> Result<Schema, Fault> {
        let word = |at: usize| word(head, at);
        if word(0) != MAGIC {
            return Err(Fault::Magic);
        }
        let (version, number) = unpair(word(1));
        if version != VERSION {
            return Err(Fault::Version(version));
        }
        let ((records_at, stride), (count, used_at)) = (unpair(word(2)), unpair(word(3)));
        let ((processes_at, process_slots), (totals_at, _)) = (unpair(word(4)), unpair(word(5)));
        let shape = Shape {
            number,
            records_at,
            stride,
            count,
            used_at,
            processes_at,
            process_slots,
            totals_at,
        };
        let mut library = [0; NAME_WORDS * 8];
        for (i, chunk) in library.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&word(NAME + i).to_ne_bytes());
        }
        let mut fields = [None; WORDS_MAX];
        let field_count = word(FIELDS_COUNT).min(FIELDS_MAX as u64) as usize;
        for field in (0..field_count).filter_map(|i| Field::decode(word(FIELDS + i))) {
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
        Ok(Schema { shape, locks: word(6), library, fields, span })
    }

    /// Returns the family's other files, from the first page (`head`) of the family's first file.
    pub fn files(head: &[u8; HEAD]) -> impl Iterator<Item = File> {
        (0..FILES_MAX).filter_map(|i| {
            let (fd, inode) = (word(head, FILES + 2 * i), word(head, FILES + 2 * i + 1));
            (fd & THERE != 0).then_some(File { fd: fd as u32 as i32, inode })
        })
    }

    /// Returns the family's processes, from the family's first file. `read` reads the file from a given offset into
    /// a buffer, and returns false if it fails.
    pub fn processes(&self, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Vec<ProcessEntry> {
        let at = u64::from(self.shape.processes_at);
        let mut count = [0; 4];
        if self.shape.process_slots == 0 || !read(at, &mut count) {
            return Vec::new();
        }
        let count = u32::from_ne_bytes(count).min(self.shape.process_slots);
        let mut bytes = alloc::vec![0; count as usize * PROCESS_ENTRY];
        if !read(at + PROCESS_ENTRY as u64, &mut bytes) {
            return Vec::new();
        }
        let pids = bytes.chunks_exact(PROCESS_ENTRY).map(|entry| entry.first_chunk());
        let processes = (0..).zip(pids).filter_map(|(slot, pid)| {
            let pid = i32::from_ne_bytes(*pid?);
            (pid > 0).then_some(ProcessEntry { slot, pid })
        });
        processes.collect()
    }

    /// Returns the numbers of the records in use, from the file's first page (`head`).
    pub fn used(&self, head: &[u8; HEAD]) -> impl Iterator<Item = u32> {
        let (at, count) = (self.shape.used_at as usize, self.shape.count);
        (0..count).filter(move |&n| {
            let byte = head.get(at + n as usize / 64 * 8..).and_then(|rest| rest.first_chunk());
            byte.is_some_and(|bytes| u64::from_ne_bytes(*bytes) >> (n % 64) & 1 != 0)
        })
    }

    /// Returns the position of a record's words in the file: the offset and the number of bytes, at most
    /// [`SPAN_MAX`].
    pub fn position_of(&self, record: u32) -> (u64, usize) {
        let at =
            u64::from(self.shape.records_at) + u64::from(record) * u64::from(self.shape.stride);
        (at + u64::from(self.span.0), (self.span.1 - self.span.0) as usize)
    }

    /// Returns the value of a word from a record's bytes. `None` if records have no such word.
    pub(super) fn value(&self, bytes: &[u8], word: super::Word) -> Option<u64> {
        let field = self.fields[word as usize].as_ref()?;
        Some(Field { at: field.at - self.span.0, ..*field }.value(bytes))
    }

    /// Returns the library's version as text.
    pub fn library(&self) -> &str {
        let len = self.library.iter().position(|&byte| byte == 0).unwrap_or(self.library.len());
        let text = core::str::from_utf8(&self.library[..len]).unwrap_or("?");
        if text.bytes().all(|byte| byte.is_ascii_graphic()) { text } else { "?" }
    }
}

impl Shape {
    /// Returns true if all parts lie within a file of `file_len` bytes, and the bitmap within the first page.
    fn fits(&self, file_len: u64) -> bool {
        let (count, stride) = (u64::from(self.count), u64::from(self.stride));
        let end = |at: u32, len: u64| u64::from(at) + len;
        let totals = end(self.totals_at, StatsPage::SIZE as u64);
        self.count <= RECORDS_MAX
            && self.process_slots <= PROCESS_SLOTS
            && end(self.records_at, count * stride) <= file_len
            && end(self.used_at, count.div_ceil(64) * 8) <= HEAD as u64
            && end(self.processes_at, (u64::from(self.process_slots) + 1) * PROCESS_ENTRY as u64)
                <= file_len
            && (self.totals_at == ABSENT || totals <= file_len)
    }
}

fn word(head: &[u8; HEAD], at: usize) -> u64 {
    let from = AT + at * 8;
    let bytes = head.get(from..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}
