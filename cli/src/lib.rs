//! What `sovia`, which runs programs, and the programs that it becomes for its other commands share.

pub mod about;
pub mod advice;
mod board;
pub mod databases;
pub mod definition;
pub mod library;
pub mod metrics;
pub mod pipes;
pub mod program;
pub mod rules;
pub mod stack;
pub mod system_rules;

pub use self::board::Board;
