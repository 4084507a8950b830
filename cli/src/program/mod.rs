//! Finds the file of a program before it runs, and checks whether the program will load the library.

mod elf;
mod inspect;
mod load;
mod lookup;
mod privilege;
pub mod proc;

pub use self::inspect::{Findings, Obstacle, inspect, interpreter_of};
pub use self::load::refusal;
pub use self::lookup::{LookupError, find};

/// Exit status for a program that cannot be executed, as in a shell.
pub const EXIT_NOT_EXECUTABLE: i32 = 126;
/// Exit status for a program that does not exist, as in a shell.
pub const EXIT_NOT_FOUND: i32 = 127;
