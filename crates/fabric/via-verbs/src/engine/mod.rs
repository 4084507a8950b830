//! The operation of a VI: passes descriptors to the device, takes completions, and ends connections.

mod done;
mod ending;
mod news;
mod posting;
mod sending;

pub(crate) use ending::First;

/// Name of a send request. One completion queue gets the completions of sends and of receives.
const SEND: u64 = 0;
/// Name of a receive request.
const RECEIVE: u64 = 1;
