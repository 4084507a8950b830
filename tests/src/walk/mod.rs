//! Random walks: two ends take one step at a time, over the kernel and over Sovia, and must see the same.
//!
//! [`seeds`] makes a walk, and [`script`] writes and reads it. [`run`] has both ends walk, [`end`] takes the steps of one of them.
//! [`compare`] compares the two stacks, and shortens a walk in which they differ.

mod calls;
mod children;
pub mod compare;
pub mod end;
mod known;
mod mail;
pub mod run;
pub mod script;
pub mod seeds;
mod sets;
mod sleepers;

pub use children::run_child;
