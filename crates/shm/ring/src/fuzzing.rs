//! Access for the targets in `fuzz/` to functions that programs must not have. Exists only in builds with `--cfg
//! fuzzing`.

pub use crate::sync::seen::{Peer, play};
