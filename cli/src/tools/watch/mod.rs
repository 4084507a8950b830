//! `sovia ps` and the other commands that look at programs while they run.
//!
//! They read what processes under Sovia show (`sovia_board`): those of the caller's user, and all of them for root. No process
//! is stopped, slowed down or asked.

mod busy;
mod columns;
pub(crate) mod explain;
pub(crate) mod filter;
mod kernel;
pub(crate) mod ps;
pub(crate) mod stat;
pub(crate) mod top;
mod units;
mod users;
