//! Code that two programs share: `sovia`, which runs programs, and `sovia-tools`, which has all other commands.

pub mod advice;
mod board;
pub mod databases;
pub mod error_text;
pub mod library;
pub mod metrics;
pub mod pipes;
pub mod program;
pub mod rules;
pub mod run;
pub mod similar;
pub mod stack;
pub mod switch;
pub mod system_rules;

pub use self::board::Board;
