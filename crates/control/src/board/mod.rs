//! The statistics page: a process's data about its connections, which other processes can read while the process
//! runs.
//!
//! Sovia's data about a connection is a record of fixed size. The record lies in a memory file of the process's
//! family, because forked processes share sockets. The engine keeps its own counts there, and copies nothing for
//! readers. The file's schema (its [`Legend`]) gives the position of each word in a record. A reader opens the file
//! through `/proc/PID/fd` and reads. The kernel allows this to the process's user and to root (`PTRACE_MODE_READ`).
//! The file is sealed, so that no other process can write to it. The file exists as long as any process has
//! the file.
//!
//! ```text
//! file:   ... | schema at AT | ... | records: COUNT times STRIDE bytes | ... | totals, in a family's first file
//! record: words of 4 or 8 bytes, each at the position that the schema gives
//! ```
//!
//! The position of a word may change with each build of the library. The meaning of a word changes only with
//! [`VERSION`]. A process may write any values, so a reader checks the form of everything it reads, and trusts
//! nothing further.

mod holders;
mod legend;
mod record;
mod word;

pub use holders::{Holders, PLACES};
pub use legend::{ABSENT, Fault, File, LEGEND_WORDS, Legend, Member, Shape};
pub use record::{Configuration, Handling, Phase, Receives, Record, Sends, Transfer, pack_address};
pub use word::{Field, Width, Word};

/// Beginnings of the names of such memory files in `/proc/PID/fd`. The first is that of a family's first file: a
/// program that inherits the family's connections finds the file by its name. The second is that of other files.
pub const FILE_NAMES: [&str; 2] = ["/memfd:sovia-records", "/memfd:sovia-board"];

/// Lowest descriptor numbers of such a file. Sovia's private descriptors are in the last quarter of the limit, if
/// the limit is from 1024 to 4096. With a higher limit, these descriptors are in the last quarter of 4096.
pub const NUMBERS_FROM: [i32; 2] = [3072, 768];

/// Offset of the schema in a file, in bytes.
pub const AT: usize = 1024;

/// Length of the first page, in bytes. A reader needs this part of a file before any other.
pub const HEAD: usize = 4096;

/// Version of the words' meanings. Increased when a word gets another meaning.
pub const VERSION: u32 = 2;

/// Maximum number of records in a file.
pub const RECORDS_MAX: u32 = 1 << 16;
/// Maximum length of a record up to the end of its last word, in bytes.
pub const SPAN_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests;
