//! What happens to a VI: its descriptors go to the device and come back done, and its connection ends.

mod done;
mod ending;
mod news;
mod posting;
mod sending;

pub(crate) use ending::First;

/// Names of requests: sends and receives end in one completion queue.
const SEND: u64 = 0;
/// See there.
const RECEIVE: u64 = 1;
