//! The door for `fuzz/`: what agents of other hosts, and any station between, can say. Only builds with `--cfg fuzzing` have it.

use crate::bundle::Messages;
use crate::hosts::fuzzing as hosts;
use crate::wire::Message;

/// Takes bytes apart as terms of a conversation: what can be is encoded as it was.
pub fn terms(bytes: &[u8]) {
    hosts::terms(bytes);
}

/// Takes bytes apart as a bundle of messages of a NIC's. Calls `about` with what is said about VIs.
pub fn bundle(bytes: &[u8], mut about: impl FnMut(&[u8])) {
    for message in Messages(bytes) {
        let Ok(message) = message else { continue };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(Message::decode(&again).as_ref(), Ok(&message));
        if let Message::About(_, bytes) = message {
            about(bytes);
        }
    }
}

/// Has two agents say `said` to each other, in turn, over a way that does `change` to the bytes of each. What either hears is what the
/// other one has said, from the beginning on, with nothing left out.
pub fn conversation(said: &[&[u8]], change: impl FnMut(&mut Vec<u8>)) {
    hosts::conversation(said, change);
}
