//! Models of this crate's lock-free parts under every interleaving, by loom. The models of wake words, ready lists and
//! entries are in the tests of `sovia-ring`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p via-shm --test loom`
//!
//! Negative tests use a model with one step left out, and show that the tests would find the missing step.
#![cfg(loom)]

mod bias;
mod reaching;
mod serving;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(model);
}
