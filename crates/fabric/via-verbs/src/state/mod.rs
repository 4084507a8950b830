//! State: the shared state of a NIC, its VIs, its completion queues, and the jobs of its thread.

mod card;
mod cq;
mod job;
mod looks;
mod request;
mod vi;
mod watching;

pub(crate) use card::{Card, Parts, Token, Waiter, hush, ring};
pub(crate) use cq::{CqShared, Watched};
pub(crate) use job::{Accepted, Job};
pub(crate) use looks::Looks;
pub(crate) use request::Request;
pub(crate) use vi::{Core, Link, Started, ViShared};
pub(crate) use watching::{Own, Watching};
