//! Tests of peers that die, start again or send invalid data.

use crate::hosts::RECEIVE;
use crate::hosts::node::{Bytes, Node, send, two, until};
use sovia_fi::{Address, Error};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A low number of tries: this end gives up a silent peer after half a second.
const HASTY: &[(&str, &str)] = &[("FI_SOVIA_TRIES", "6")];

#[test]
fn a_peer_that_never_was_is_an_error_of_each_operation() {
    let (mut one, mut other) = two(HASTY);
    let gone = other.address();
    drop(other);
    let number = one.knows(gone);
    assert_eq!(number, 1);
    let (short, long) = (Bytes::pattern(10, 0), Bytes::pattern(100_000, 0));
    one.try_send(&short, 0, 1, true).unwrap();
    one.try_send(&long, 0, 2, false).unwrap();
    one.receive(&Bytes::zeroed(10), Some(0), 3, 0);
    for context in [1, 2, RECEIVE + 3] {
        let failure = until(&mut [&mut one], |nodes| nodes[0].told_of(context)).unwrap_err();
        assert_eq!(failure.error, Error::UNREACHABLE, "{context}");
    }
    assert_eq!(one.try_send(&short, 0, 4, false), Err(Error::GONE));
}

/// Another process with an endpoint.
struct Other {
    process: Child,
    said: BufReader<ChildStdout>,
    address: Address,
}

impl Other {
    /// Starts a process that does `what`, with the endpoint at address `with`.
    fn new(what: &str, with: &Address) -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "hosts::faults::the_other_process", "--nocapture"])
            .args(["--test-threads", "1"])
            .env("OTHER_DOES", what)
            .env("OTHER_WITH", with.to_text())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let address = hear(&mut said, "fi_sovia://");
        let address = Address::from_text(&address).unwrap();
        Other { process, said, address }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: `kill` accesses no memory. The process is a child that this process has not waited for, so the pid is
        // not reused.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, signal) }, 0);
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the next line from the text `begin` on.
fn hear(said: &mut BufReader<ChildStdout>, begin: &str) -> String {
    loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "the other process has ended");
        if let Some(at) = line.find(begin) {
            return line[at..].trim_end().to_owned();
        }
    }
}

#[test]
#[ignore = "it is the other process of these tests"]
fn the_other_process() {
    let mut node = Node::new(HASTY);
    println!("{}", node.address().to_text());
    let with = Address::from_text(&std::env::var("OTHER_WITH").unwrap()).unwrap();
    assert_eq!(node.knows(with), 0);
    let (short, long) = (Bytes::pattern(10, 0), Bytes::pattern(LONG, 0));
    match std::env::var("OTHER_DOES").unwrap().as_str() {
        "greets" => {
            send(&mut [&mut node], 0, &short, 1, false);
            node.receive(&short, Some(0), 2, 0);
        }
        "sends" => send(&mut [&mut node], 0, &long, 1, false),
        "receives" => {
            send(&mut [&mut node], 0, &short, 2, false);
            node.receive(&long, Some(0), 1, 0);
        }
        what => panic!("{what}"),
    }
    loop {
        node.go();
        if let Some(Err(failure)) = node.told.pop() {
            println!("failed {:?}", failure.error);
            return;
        }
    }
}

const LONG: usize = 100 << 20;

#[test]
fn a_receive_from_a_process_that_is_killed_is_an_error() {
    let mut node = Node::new(HASTY);
    let other = Other::new("greets", &node.address());
    node.knows(other.address);
    let room = Bytes::zeroed(10);
    node.receive(&room, Some(0), 1, 0);
    until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + 1)).unwrap();
    // The receive waits for the peer, while no transfer to the peer is under way.
    node.receive(&room, Some(0), 2, 0);
    other.signal(libc::SIGKILL);
    let failure = until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + 2)).unwrap_err();
    assert_eq!(failure.error, Error::UNREACHABLE);
}

#[test]
fn a_process_that_is_killed_in_a_long_message_is_an_error() {
    for sends in [true, false] {
        let mut node = Node::new(HASTY);
        let other = Other::new(if sends { "sends" } else { "receives" }, &node.address());
        node.knows(other.address);
        let long = Bytes::zeroed(LONG);
        let context = if sends {
            node.receive(&long, Some(0), 1, 0);
            until(&mut [&mut node], |_| (long.byte(70_000) != 0).then_some(()));
            RECEIVE + 1
        } else {
            let room = Bytes::zeroed(10);
            node.receive(&room, Some(0), 2, 0);
            until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + 2)).unwrap();
            send(&mut [&mut node], 0, &long, 1, false);
            // Makes progress for a while, so that the message may be in the middle. The kill causes an error in any
            // case.
            (0..1000).for_each(|_| node.go());
            1
        };
        other.signal(libc::SIGKILL);
        let failure = until(&mut [&mut node], |nodes| nodes[0].told_of(context)).unwrap_err();
        assert_eq!(failure.error, Error::UNREACHABLE, "{sends}");
    }
}

#[test]
fn process_given_up_while_stopped_gets_an_error() {
    let mut node = Node::new(HASTY);
    let mut other = Other::new("greets", &node.address());
    node.knows(other.address);
    let room = Bytes::zeroed(10);
    node.receive(&room, Some(0), 1, 0);
    until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + 1)).unwrap();
    other.signal(libc::SIGSTOP);
    node.receive(&room, Some(0), 2, 0);
    let failure = until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + 2)).unwrap_err();
    assert_eq!(failure.error, Error::UNREACHABLE);
    other.signal(libc::SIGCONT);
    std::thread::scope(|scope| {
        let heard = scope.spawn(|| hear(&mut other.said, "failed"));
        until(&mut [&mut node], |_| heard.is_finished().then_some(()));
        assert_eq!(heard.join().unwrap(), "failed Error(104)");
    });
}

#[test]
fn an_endpoint_that_is_closed_in_a_long_message_is_an_error_at_once() {
    let (mut one, mut other) = two(&[]);
    let (out, room) = (Bytes::pattern(50 << 20, 0), Bytes::zeroed(50 << 20));
    other.receive(&room, Some(0), 1, 0);
    send(&mut [&mut one, &mut other], 0, &out, 1, false);
    until(&mut [&mut one, &mut other], |_| (room.byte(70_000) != 0).then_some(()));
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| drop(other));
        let failure = until(&mut [&mut one], |nodes| nodes[0].told_of(1)).unwrap_err();
        assert_eq!(failure.error, Error::GONE);
        closing.join().unwrap();
    });
}

/// The peer makes no progress while one endpoint closes and the next one begins and sends.
#[test]
fn new_endpoint_at_a_known_address_is_accepted() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = format!("udp:{free}");
    let mut one = Node::new(&[]);
    for round in 0..10 {
        let mut other = Node::new(&[("FI_SOVIA_PLACE", &place)]);
        let (to_one, to_other) = (other.knows(one.address()), one.knows(other.address()));
        assert_eq!((to_one, to_other), (0, round));
        let (out, room) = (Bytes::pattern(3000, round as usize), Bytes::zeroed(3000));
        one.receive(&room, None, round, 0);
        send(&mut [&mut other], 0, &out, round, false);
        let told = RECEIVE + round as usize;
        let came = until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(told)).unwrap();
        assert_eq!((came.len, came.source), (3000, round));
        assert_eq!(room.bytes(), out.bytes());
        let back = Bytes::zeroed(3000);
        other.receive(&back, Some(0), 100, 0);
        until(&mut [&mut one, &mut other], |nodes| nodes[0].try_send(&out, round, 100, false).ok());
        let told = RECEIVE + 100;
        until(&mut [&mut one, &mut other], |nodes| nodes[1].told_of(told)).unwrap();
        assert_eq!(back.bytes(), out.bytes());
        // `one` need not make progress: its NIC's thread runs while no call drives the NIC.
        drop(other);
    }
}

#[test]
fn forged_frames_change_nothing() {
    let (mut one, mut other) = two(&[]);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = other.address();
    // The address holds the place as kind, port and address.
    let bytes = target.bytes();
    let port = u16::from_be_bytes([bytes[34], bytes[35]]);
    let mut chance = 1u64;
    let mut next = || {
        chance = chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (chance >> 33) as usize
    };
    for round in 0..200 {
        let (out, room) = (Bytes::pattern(20_000, round), Bytes::zeroed(20_000));
        other.receive(&room, Some(0), round as u64, 0);
        send(&mut [&mut one, &mut other], 0, &out, round as u64, false);
        for _ in 0..10 {
            let mut frame: Vec<u8> = (0..next() % 200).map(|_| next() as u8).collect();
            if let Some([version, kind]) = frame.first_chunk_mut() {
                (*version, *kind) = (2, 48 + (next() % 10) as u8);
            }
            let _ = socket.send_to(&frame, ("127.0.0.1", port));
        }
        until(&mut [&mut one, &mut other], |nodes| nodes[1].told_of(RECEIVE + round)).unwrap();
        assert!(room.bytes() == out.bytes());
    }
}
