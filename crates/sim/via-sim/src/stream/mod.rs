//! A stream of frames, in order and exactly once, over packets that are lost, repeated and
//! overtaken: numbers, acknowledgements, retransmission. A state machine: packets and the time go
//! in, packets and a deadline come out.

mod rtt;
mod rx;
mod tx;

pub(crate) use rtt::Timing;
pub(crate) use rx::Rx;
pub(crate) use tx::{Tx, Verdict};

#[cfg(test)]
mod tests;
