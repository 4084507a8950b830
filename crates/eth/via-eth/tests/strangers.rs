//! Frames from whoever can send to a NIC's port: they are counted, and do nothing.

use core::net::SocketAddr;
use sovia_link::wire::{EndId, Item, Operation, Packet, Part, Sending, Word};
use std::net::UdpSocket;
use std::thread;
use via::error::ConnectError;
use via::{
    Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, NetAddress, Nic, Status, Vi,
    ViAttributes,
};
use via_eth::{Config, EthNic, EthVi, Place};

const MESSAGES: u32 = 300;
const LEN: u32 = 3000;

fn nic() -> EthNic {
    Config::new(Place::Udp(([127, 0, 0, 1], 0).into())).open().expect("UDP works on this host")
}

/// Where a NIC's frames go.
fn port_of(nic: &EthNic) -> SocketAddr {
    let host = nic.address(b"").host;
    let [a, b, c, d, high, low] = host[..] else { panic!("an address over IPv4 has six bytes") };
    ([a, b, c, d], u16::from_be_bytes([high, low])).into()
}

struct End {
    vi: EthVi,
    memory: Memory,
    handle: MemHandle,
}

impl End {
    fn new(nic: &EthNic) -> End {
        let vi = nic.create_vi(ViAttributes::default()).unwrap();
        let memory = Memory::zeroed(64 + LEN as usize);
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        End { vi, memory, handle }
    }

    fn descriptor(&self) -> DescriptorAddress {
        let data = self.memory.segment(64, LEN, self.handle);
        self.memory.descriptor(0).unwrap().prepare(&[data], None).unwrap();
        DescriptorAddress { address: self.memory.address(0), handle: self.handle }
    }
}

fn byte(number: u32) -> u8 {
    number as u8
}

/// Messages each way in turn, while `meanwhile` goes on.
fn converse(nics: &[EthNic; 2], mut meanwhile: impl FnMut(u32)) {
    let place = nics[0].address(b"server");
    thread::scope(|s| {
        s.spawn(|| {
            let end = End::new(&nics[0]);
            end.vi.post_recv(end.descriptor()).unwrap();
            nics[0].connect_wait(&place, None).unwrap().accept(&end.vi).unwrap();
            for number in 0..MESSAGES {
                let got = end.vi.recv_wait(None).unwrap();
                assert!(!got.status.intersects(Status::ERROR_MASK), "{number}: {:?}", got.status);
                let mut bytes = [0; LEN as usize];
                end.memory.read(64, &mut bytes);
                assert_eq!(bytes, [byte(number); LEN as usize]);
                if number + 1 < MESSAGES {
                    end.vi.post_recv(end.descriptor()).unwrap();
                }
            }
            end.vi.disconnect();
        });
        let end = End::new(&nics[1]);
        let own: NetAddress = nics[1].address(b"client");
        while end.vi.connect_request(&own, &place, None) == Err(ConnectError::NoMatch) {}
        for number in 0..MESSAGES {
            meanwhile(number);
            end.memory.write(64, &[byte(number); LEN as usize]);
            end.vi.post_send(end.descriptor()).unwrap();
            let sent = end.vi.send_wait(None).unwrap();
            assert!(!sent.status.intersects(Status::ERROR_MASK), "{number}: {:?}", sent.status);
        }
    });
}

/// A frame that is whole and legal, but for ends that there are not.
fn legal(number: u32) -> Vec<u8> {
    let end = |n: u64| EndId(0x5EED_0000_0000_0000 | n);
    let (to, from) = (end(number.into()), end(1));
    let sending = Sending { number, transmission: number };
    let part = Part {
        operation: Operation::Send,
        immediate: None,
        total: LEN,
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

/// Noise of any length, whole frames for nobody, and such with a byte changed.
#[test]
fn whatever_a_stranger_sends_a_conversation_goes_on_undisturbed() {
    let nics = [nic(), nic()];
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let places = [port_of(&nics[0]), port_of(&nics[1])];
    let mut sent = 0;
    converse(&nics, |number| {
        let noise: Vec<u8> = (0..number * 7 % 1472).map(|i| (i * number) as u8).collect();
        let mut damaged = legal(number);
        let at = number as usize * 31 % damaged.len();
        damaged[at] ^= 1;
        for frame in [noise, legal(number), damaged] {
            for place in places {
                stranger.send_to(&frame, place).unwrap();
                sent += 1;
            }
        }
    });
    let dropped: u64 = nics
        .iter()
        .map(|nic| {
            let dropped = nic.driver().counters().dropped;
            dropped.malformed + dropped.strangers
        })
        .sum();
    // Some may have been lost before they came, or have come after the end.
    assert!(dropped > 0 && dropped <= sent, "{dropped} of {sent}");
}
