//! The door for `fuzz/`: what a fuzz target needs and no program may have. Only builds with `--cfg fuzzing`
//! have it.

use crate::connect::wire::{self, Answer, Request};

pub use crate::sync::seen::{Peer, play};

/// Reads bytes as each of the messages by which native VIs connect.
///
/// # Panics
/// If one that is read is not what it says.
pub fn parse(bytes: &[u8]) {
    if let Some(request) = Request::read(bytes) {
        assert_eq!(Request::read(&request.write()), Some(request));
    }
    if let Some(answer) = Answer::read(bytes) {
        assert_eq!(Answer::read(&answer.write()), Some(answer));
    }
    if let Some((token, at)) = wire::read_welcome(bytes) {
        assert_eq!(wire::read_welcome(&wire::welcome(&token, at)), Some((token, at)));
    }
}
