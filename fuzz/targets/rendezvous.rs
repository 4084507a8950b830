//! Messages of a first rendezvous: parsing them, and what they make the honest side do.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sovia_fuzz::input::Input;
use sovia_fuzz::stand::{Stand, own_descriptors, step};
use sovia_fuzz::{honest, open};
use sovia_sockets::conn::Role;
use sovia_sockets::fuzzing;
use std::sync::OnceLock;

/// Messages of a story.
const MOST: usize = 24;

fn parse(bytes: &[u8]) {
    if let Some((again, ..)) = fuzzing::read_message(bytes) {
        let same = fuzzing::read_message(&again).map(|(bytes, ..)| bytes);
        assert_eq!(same.as_ref(), Some(&again), "what is read is what was meant");
        assert_eq!(again.len(), bytes.len());
    }
    if let Some(bytes) = bytes.first_chunk()
        && let Some(again) = fuzzing::read_discriminator(bytes)
    {
        assert_eq!(fuzzing::read_discriminator(&again), Some(again));
    }
    via_shm::fuzzing::parse(bytes);
}

/// A message with some of its bytes changed, or cut, or longer than any.
fn spoil(message: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..input.below(4) {
        let at = input.below(message.len());
        message[at] = input.u8();
    }
    match input.below(16) {
        0 => message.truncate(input.below(message.len() + 1)),
        1 => message.extend(input.bytes(64)),
        _ => {}
    }
}

fn meet(input: &mut Input<'_>) -> bool {
    let role = if input.flag() { Role::Connector } else { Role::Acceptor };
    let mut stand = Stand::new(role);
    let spoilt = input.flag();
    // The honest side begins to look for its peer.
    stand.transfer();
    stand.transfer();
    input.each(MOST, |input| {
        match input.below(8) {
            0 => stand.transfer(),
            1 => stand.settle(),
            2 => {
                let raw = input.bytes(200);
                stand.send(raw, &[]);
            }
            n => {
                let number = n - 2;
                let mut message = stand.message(number);
                if spoilt {
                    spoil(&mut message, input);
                }
                parse(&message);
                let mut fds = Vec::new();
                let own = own_descriptors();
                if number == step::OFFER {
                    fds.push(stand.own_segment());
                }
                if matches!(number, step::OFFER | step::ACCEPT) {
                    fds.extend(own[..own.len() - 1].iter().map(sovia_sys::Fd::raw));
                }
                stand.send(&message, &fds);
            }
        }
        stand.transfer();
    });
    let attached = stand.honest.is_attached();
    stand.end();
    attached
}

/// A story without a lie.
fn truth(role: Role) -> Vec<u8> {
    match role {
        Role::Connector => vec![1, 0, 3, 7, 1, 5, 0],
        Role::Acceptor => vec![0, 0, 6, 4, 1, 0],
    }
}

fuzz_target!(|bytes: &[u8]| {
    static BEFORE: OnceLock<Vec<i32>> = OnceLock::new();
    let before = BEFORE.get_or_init(|| {
        honest::start();
        for role in [Role::Connector, Role::Acceptor] {
            let attached = meet(&mut Input::new(&truth(role)));
            assert!(attached, "the {role:?} does not meet an honest peer: nothing is tested");
        }
        open::descriptors()
    });
    parse(bytes);
    meet(&mut Input::new(bytes));
    open::expect_no_more_than(before);
});
