//! Tests of frames from stations without a connection. The NIC counts and drops them.

use crate::ends::{End, echo};
use core::net::SocketAddr;
use sovia_link::wire::{EndId, Item, Operation, Packet, Part, Sending, Word};
use std::net::UdpSocket;
use std::thread;
use via::error::ConnectError;
use via::{NetAddress, Vi};
use via_eth::{Config, EthNic, Place, counters};

const MESSAGES: u32 = 300;
const LEN: usize = 3000;

fn nic() -> EthNic {
    Config::new(Place::Udp(([127, 0, 0, 1], 0).into())).open().expect("UDP works on this host")
}

/// Returns the socket address of a NIC's port.
fn port_of(nic: &EthNic) -> SocketAddr {
    let host = nic.address(b"").host;
    let [a, b, c, d, high, low] = host[..] else { panic!("an address over IPv4 has six bytes") };
    ([a, b, c, d], u16::from_be_bytes([high, low])).into()
}

fn byte(number: u32) -> u8 {
    number as u8
}

/// Exchanges messages in turn, and calls `meanwhile` before each. Then calls `after`, before the connection ends.
fn converse(nics: &[EthNic; 2], mut meanwhile: impl FnMut(u32), after: impl FnOnce()) {
    let place = nics[0].address(b"server");
    thread::scope(|s| {
        s.spawn(|| echo(&nics[0], LEN));
        let end = End::new(&nics[1], LEN);
        let own: NetAddress = nics[1].address(b"client");
        while end.vi.connect_request(&own, &place, None) == Err(ConnectError::NoMatch) {}
        for number in 0..MESSAGES {
            meanwhile(number);
            let message = [byte(number); LEN];
            end.receive();
            end.send(&message);
            assert!(end.received().expect("it comes back") == message, "{number}: other bytes");
        }
        after();
        end.vi.disconnect();
    });
}

/// Returns a valid frame for ends that do not exist.
fn legal(number: u32) -> Vec<u8> {
    let end = |n: u64| EndId(0x5EED_0000_0000_0000 | n);
    let (to, from) = (end(number.into()), end(1));
    let sending = Sending { number, transmission: number };
    let part = Part {
        operation: Operation::Send,
        immediate: None,
        total: LEN as u32,
        start: 0,
        bytes: vec![number as u8; 1000],
    };
    let mut frame = Vec::new();
    match number % 3 {
        0 => Packet::Stream { to, from, sending, ack: 0, item: Item::Part(part) }.emit(&mut frame),
        1 => Packet::Datagram { to, from, message: 0, part }.emit(&mut frame),
        _ => Word::Gone { to }.emit(&mut frame),
    }
    frame
}

/// Sends noise of any length, valid frames for unknown ends, and such frames with one corrupt byte.
#[test]
fn noise_from_an_unknown_sender_does_not_disturb_a_conversation() {
    let nics = [nic(), nic()];
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let places = [port_of(&nics[0]), port_of(&nics[1])];
    let mut sent = 0;
    let mut dropped = 0;
    let meanwhile = |number| {
        let noise: Vec<u8> = (0..number * 7 % 1472).map(|i| (i * number) as u8).collect();
        let mut corrupt = legal(number);
        let at = number as usize * 31 % corrupt.len();
        corrupt[at] ^= 1;
        for frame in [noise, legal(number), corrupt] {
            for place in places {
                stranger.send_to(&frame, place).unwrap();
                sent += 1;
            }
        }
    };
    // The NIC also counts a late frame of the ended connection as a frame without a connection.
    converse(&nics, meanwhile, || {
        for nic in &nics {
            let counted = counters(nic).dropped;
            dropped += counted.malformed + counted.strangers;
        }
    });
    // Some frames may have been lost, or may have arrived after the count.
    assert!(dropped > 0 && dropped <= sent, "{dropped} of {sent}");
}
