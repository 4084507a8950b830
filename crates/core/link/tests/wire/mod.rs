//! The wire format: what is emitted parses, and nothing else does.

mod format;
mod packets;
mod refused;
mod vectors;
