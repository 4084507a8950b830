//! Imports and helpers of nearly every case.

pub(super) use super::until::{eventually, never};
pub(super) use super::{Context, End, Line, SOON, Target, Told, connect, pair};
pub(super) use std::sync::{Arc, Mutex, mpsc};
pub(super) use std::thread;
pub(super) use std::time::{Duration, Instant};
pub(super) use via::{
    Attach, Cause, CompletionQueue, Connection, Control, CqEntry, DescriptorAddress, Done,
    ErrorCode, MemAttributes, Memory, Nic, Reliability, RemoteSegment, Resource, Status, Vi,
    ViAttributes, ViState, WorkQueueKind, error::*,
};

/// Returns a timeout of `ms` milliseconds.
pub(super) fn ms(ms: u64) -> Option<Duration> {
    Some(Duration::from_millis(ms))
}

/// Returns attributes with the longest messages that the NIC allows.
pub(super) fn longest<N: Nic>(cx: &Context<'_, N>) -> ViAttributes {
    let max_transfer_size = cx.nic.attributes().max_transfer_size;
    ViAttributes { max_transfer_size, ..ViAttributes::default() }
}
