//! Entry points for `fuzz/`: data from agents of other hosts, and from attackers on the path. Only builds with `--cfg
//! fuzzing` have them.

use crate::bundle::Messages;
use crate::hosts::fuzzing as hosts;
use crate::wire::Message;

/// Decodes bytes as terms of the agents' connection. Valid terms must encode to the same bytes.
pub fn terms(bytes: &[u8]) {
    hosts::terms(bytes);
}

/// Decodes bytes as a bundle of a NIC's messages. Calls `about` with the bytes of each event of a VI.
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

/// Lets two agents send the messages `said` in turn, while `change` alters the bytes on the way.
///
/// Each agent must receive a prefix of the other's messages, unchanged and without gaps.
pub fn conversation(said: &[&[u8]], change: impl FnMut(&mut Vec<u8>)) {
    hosts::conversation(said, change);
}
