//! Messages of agents of other hosts, and attacks on a conversation of two agents.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_agent::fuzzing::{bundle, conversation, terms};
use sovia_fuzz::input::Input;
use sovia_reflect::message::Message;

/// A message about a VI is encoded as it was.
fn about(bytes: &[u8]) {
    if let Ok(message) = Message::decode(bytes) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(Message::decode(&again).as_ref(), Ok(&message));
    }
}

/// Changes bytes as an attacker on the network does.
fn change(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    let at = input.below(bytes.len().max(1)).min(bytes.len());
    match input.u8() % 16 {
        0 => bytes.truncate(at),
        1 => drop(bytes.splice(at..at, input.bytes(8).iter().copied())),
        2 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= input.u8();
            }
        }
        3 => bytes.clear(),
        4 => bytes.extend_from_within(at..),
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => terms(rest),
        1 => bundle(rest, about),
        2 => about(rest),
        _ => {
            let mut input = Input::new(rest);
            let messages: Vec<&[u8]> = (0..input.below(6)).map(|_| input.bytes(20)).collect();
            conversation(&messages, |bytes| change(bytes, &mut input));
        }
    }
});
