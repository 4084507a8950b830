//! What the two programs of the command line share: `sovia`, which runs programs, and `sovia-bench`, which
//! measures.

pub mod about;
mod board;
pub mod databases;
pub mod definition;
pub mod library;
pub mod metrics;
pub mod program;
pub mod rules;

pub use self::board::Board;
