//! Frames as bytes: the vectors that every implementation agrees on, and what any bytes come to.

mod bytes;
mod vectors;
