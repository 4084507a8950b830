//! Random walks: two ends take one step at a time, over the kernel and over Sovia, and must see the same.
//!
//! [`script`] makes a walk from a seed, [`end`] takes the steps of one end, [`run`] lets both ends walk and writes down
//! what they see, [`compare`] compares the two stacks and shortens a walk in which they differ.

mod calls;
mod children;
pub mod compare;
pub mod end;
mod mail;
pub mod run;
pub mod script;
mod sets;
mod sleepers;

pub use children::run_child;
