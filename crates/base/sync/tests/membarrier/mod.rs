//! What two threads agree by of which one leaves its fence to the kernel, in every interleaving: each protocol holds, and
//! fails once the kernel's fence, or another of its parts, is left out.

#![cfg(not(loom))]

mod bias;
mod doorbell;
mod machine;
