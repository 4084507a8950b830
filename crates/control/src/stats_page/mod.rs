//! The statistics page: a process's data about its connections, which other processes can read while the process
//! runs.
//!
//! Sovia's data about a connection is a record of fixed size. The record lies in a memory file of the process's
//! family, because forked processes share sockets. The engine uses the counts in the record as its own, and copies
//! nothing for readers. The file's schema (its [`Schema`]) gives the position of each word in a record. A reader
//! opens the file through `/proc/PID/fd`. The kernel allows this to the process's user and to root
//! (`PTRACE_MODE_READ`). The file's size is sealed. The file exists as long as a process has it open.
//!
//! ```text
//! file:   ... | schema at AT | ... | records: COUNT times STRIDE bytes | ... | totals, in a family's first file
//! record: words of 4 or 8 bytes, each at the position that the schema gives
//! ```
//!
//! The position of a word may change with each build of the library. The meaning of a word changes only with
//! [`VERSION`]. A faulty process may write any values. So a reader checks that positions and sizes are possible,
//! and trusts no value.

mod record;
mod references;
mod schema;
mod word;

pub use record::{Configuration, Handling, Phase, Receives, Record, Sends, Transfer, pack_address};
pub use references::{PROCESS_SLOTS, References};
pub use schema::{ABSENT, Fault, File, ProcessEntry, SCHEMA_WORDS, Schema, Shape};
pub use word::{Field, Width, Word};

/// Beginnings of the names of statistics files in `/proc/PID/fd`. A family's first file has the first name, by
/// which a program that inherits connections finds the file. The family's other files have the second name.
pub const FILE_NAMES: [&str; 2] = ["/memfd:sovia-records", "/memfd:sovia-board"];

/// Lowest descriptor numbers that a statistics file can have, for a high and for a low RLIMIT_NOFILE. Sovia's
/// private descriptors are in the last quarter of the limit if the limit is from 1024 to 4096. With a higher limit,
/// these descriptors are in the last quarter of 4096.
pub const NUMBERS_FROM: [i32; 2] = [3072, 768];

/// Offset of the schema in a file, in bytes.
pub const AT: usize = 1024;

/// Length of a file's first page, in bytes. A reader must read the first page before any other part.
pub const HEAD: usize = 4096;

/// Version of the words' meanings. Increased when a word gets another meaning.
pub const VERSION: u32 = 2;

/// Maximum number of records in a file.
pub const RECORDS_MAX: u32 = 1 << 16;
/// Maximum length of a record up to the end of its last word, in bytes.
pub const SPAN_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests;
