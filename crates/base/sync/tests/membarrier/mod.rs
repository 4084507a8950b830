//! Protocols in which one of two threads leaves its fence to the kernel, in every interleaving. Each protocol is
//! correct, and fails once the kernel's fence or another part of the protocol is omitted.

#![cfg(not(loom))]

mod bias;
mod doorbell;
mod machine;
