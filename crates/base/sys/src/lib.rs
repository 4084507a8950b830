//! The lowest layer of Sovia: system calls, shared mappings and sleeping.
//!
//! All code here calls the kernel directly and not libc's symbols, because Sovia interposes those symbols. Most
//! system calls are in this crate, and most of its functions for them are safe.

pub mod arrivals;
pub mod bpf;
pub mod build;
pub mod cache;
pub mod call;
pub mod clock;
pub mod credentials;
pub mod datagram;
pub mod diag;
pub mod epoll_entry;
pub mod fd;
pub mod futex;
pub mod futex_any;
pub mod interface;
pub mod mapping;
pub mod maps;
pub mod memlock;
pub mod memory_limits;
pub mod netlink;
pub mod netns;
pub mod other_memory;
pub mod poll;
pub mod process;
pub mod record_lock;
pub mod seqpacket;
pub mod signals;
pub mod small_file;
pub mod stall;
pub mod tables;
pub mod trace;
pub mod tun;
pub mod user_memory;
pub mod userfault;

pub use call::{Errno, Result, described};
pub use fd::Fd;
pub use mapping::Mapping;
pub use user_memory::{UserSlice, UserSliceMut};
