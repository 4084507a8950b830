//! The board: what a process shows of its connections to other processes, while it runs and without being stopped.
//!
//! What Sovia knows of a connection lies in a memory file of its process's family, as a record of fixed size, because
//! forked processes share sockets. The engine counts there for itself. So nothing is copied to a board: the file says
//! where in a record which word lies (its [`Legend`]), and a reader opens the file through `/proc/PID/fd` and reads.
//! The kernel lets the process's user and root do so (`PTRACE_MODE_READ`), and the file is sealed against writes by
//! others. It ends with the last process that has it.
//!
//! ```text
//! file:   ... | legend at AT | ... | records: COUNT times STRIDE bytes | ... | totals, in a family's first file
//! record: words of 4 or 8 bytes, each where the legend says
//! ```
//!
//! Where a word lies may change with each build of the library; what it means changes with [`VERSION`]. A reader takes
//! whatever a process has written there: all of it is checked when it is read, and none of it is believed beyond its form.

mod holders;
mod legend;
mod record;
mod word;

pub use holders::{Holders, PLACES};
pub use legend::{ABSENT, Fault, File, LEGEND_WORDS, Legend, Member, Shape};
pub use record::{Configuration, Handling, Phase, Receives, Record, Sends, Transfer, pack_address};
pub use word::{Field, Width, Word};

/// What names of such memory files begin with, as `/proc/PID/fd` shows them: a family's first file, which a program that
/// inherits its connections finds by its name, and others.
pub const FILE_NAMES: [&str; 2] = ["/memfd:sovia-records", "/memfd:sovia-board"];

/// The first number of a descriptor of such a file: private descriptors are taken from the last quarter of a limit that is
/// at least 1024, and from the last quarter of 4096 where the limit is higher.
pub const NUMBERS_FROM: [i32; 2] = [3072, 768];

/// Where in a file the legend lies.
pub const AT: usize = 1024;

/// How many bytes a reader needs of a file before it knows the rest: the first page.
pub const HEAD: usize = 4096;

/// Changed when a word gets another meaning.
pub const VERSION: u32 = 2;

/// Most records of a file.
pub const RECORDS_MAX: u32 = 1 << 16;
/// Most bytes of a record up to the end of its last word.
pub const SPAN_MAX: usize = 1 << 14;

#[cfg(test)]
mod tests;
