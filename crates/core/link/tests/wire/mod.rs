//! Tests of the wire format: emitted frames parse, and nothing else does.

mod format;
mod packets;
mod refused;
mod vectors;
