//! Two engines in one process: what the two ends of a connection do to each other.
//!
//! A case brings a connection to a named place on its way to the VI or back ([`harness::At`]). Then it lets the two
//! ends act, and looks at what calls return. [`harness`] has the ends, [`steps`] runs two lists of steps in every
//! order. No step depends on time: the work of the progress thread is done by [`harness::End::round`] where a case
//! wants it.

mod bounds;
mod closing;
mod deaths;
mod engines;
mod epoll_sets;
mod harness;
mod orders;
mod paths;
mod readiness;
mod rendezvous;
mod resets;
mod steps;
mod threads;
mod windows;
