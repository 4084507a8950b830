//! Tests of frames as bytes: the vectors of all implementations, and random bytes.

mod bytes;
mod vectors;
