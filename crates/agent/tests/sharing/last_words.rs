//! Tests of frames that programs have sent just before their end.

use crate::common::name;
use crate::process::Part;
use crate::strangers::{ack, asked, end, place, put};
use sovia_link::wire::{Checksum, Packet};
use sovia_port::Port;
use sovia_port::agent::Agent;
use sovia_sys::poll;

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("what_a_program_has_sent_before_its_end_arrives", arrives),
    ("program_that_ends_with_nothing_to_say_is_gone", is_gone),
];

const FRAMES: u32 = 100;

/// Starts an agent, and opens two programs' ports there.
fn scene() -> (Part, [Agent; 2]) {
    let name = name();
    let mut agent = Part::start(&format!("agent {name} udp:127.0.0.1:0"));
    agent.says("ready");
    let ports = [(); 2].map(|()| Agent::open(&name).expect("it serves this user"));
    (agent, ports)
}

/// Receives `count` acknowledgements. Returns the numbers that they acknowledge.
fn acks(port: &mut Agent, count: usize) -> Vec<u32> {
    let mut came = Vec::new();
    while came.len() < count {
        let mut take = |_: &_, frame: &[u8]| match Packet::parse_for(frame, Checksum::Link) {
            Ok(Packet::Ack { report, .. }) => came.push(report.next),
            other => panic!("{other:?}"),
        };
        port.receive(&mut take).expect("the agent is there");
        if came.len() < count && port.about_to_sleep() {
            poll::wait(port.descriptors().frames, libc::POLLIN);
        }
    }
    came
}

/// The agent is stopped while the program sends and ends. The first frame's destination depends on where programs
/// listen. So the agent reads messages, and learns of the end, before it takes the other frames.
fn arrives() {
    let (agent, [mut goes, mut stays]) = scene();
    let (own, to) = (stays.own(), end(&stays, 1));
    agent.stop();
    let request = asked(end(&goes, 3), place(&goes, b"asks"), place(&stays, b"nobody"), false);
    put(&mut goes, own, &request);
    for n in 0..FRAMES {
        let word = ack(to, end(&goes, 2), n);
        put(&mut goes, own, &word);
    }
    drop(goes);
    agent.go_on();
    assert_eq!(acks(&mut stays, FRAMES as usize), (0..FRAMES).collect::<Vec<_>>());
}

/// From then on, the agent answers frames for the program.
fn is_gone() {
    let (_agent, [goes, mut stays]) = scene();
    let (own, gone) = (stays.own(), end(&goes, 1));
    drop(goes);
    // Send until the agent knows of the end.
    let (mut came, from) = (None, end(&stays, 2));
    while came.is_none() {
        if stays.slot().is_some() {
            put(&mut stays, own, &ack(gone, from, 7));
        }
        let mut take = |_: &_, frame: &[u8]| match Packet::parse_for(frame, Checksum::Link) {
            Ok(Packet::Gone { to }) => came = Some(to),
            other => panic!("{other:?}"),
        };
        stays.receive(&mut take).expect("the agent is there");
        std::thread::yield_now();
    }
    assert_eq!(came, Some(from));
}
