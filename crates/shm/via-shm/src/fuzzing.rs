//! Access for the targets in `fuzz/` to functions that programs must not have. Exists only in builds with `--cfg
//! fuzzing`.

use crate::connect::wire::{self, Answer, Request};

/// Decodes bytes as each of the messages by which native VIs connect.
///
/// # Panics
/// If a decoded message, encoded and decoded again, differs.
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
