//! Programs that know the NICs' messages and lie. They send keys that no region has, and replay requests. They use
//! verbs directly. The tests need the guest of `scripts/lab`.

use crate::common::*;
use sovia_verbs::pair::Size;
use sovia_verbs::{Channel, Cq, Device, Domain, EventKind, Events, Id, Pair, Rights, Space};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use via::{
    Control, DescriptorAddress, MemAttributes, Memory, NetAddress, Nic, RemoteSegment, Status, Vi,
    ViAttributes, ViState,
};
use via_verbs::wire::{Answer, Hello, Question, Welcome};

/// Names of the listening identifiers. Events of their requests report these names.
const LISTENER: u64 = 1;
const QUESTIONS: u64 = 2;
/// A key that no region has.
const NO_KEY: u32 = 0xdead_beef;

fn here() -> IpAddr {
    AT.parse().expect("an address")
}

/// A peer that accepts one connection, and gives the key [`NO_KEY`] for every region.
struct Liar {
    events: Arc<Events>,
    device: Arc<Device>,
    _questions: Id,
    pair: Pair,
    at: SocketAddr,
}

impl Liar {
    fn new() -> Liar {
        let events = Events::new().expect("a channel");
        let id = Id::new(&events, Space::Connections, LISTENER).expect("an identifier");
        id.bind((here(), 0).into()).expect("the guest's address");
        let at = SocketAddr::new(here(), id.port());
        let device = Device::of(id).expect("the guest's device");
        let questions = Id::new(&events, Space::Questions, QUESTIONS).expect("an identifier");
        questions.bind(at).expect("the same port");
        let channel = Channel::new(&device).expect("a channel");
        let cq = Cq::new(&channel, 16, 0).expect("a completion queue");
        let size = Size { sends: 4, receives: 4, segments: 1, inline: 0 };
        let domain = Domain::new(&device).expect("a domain");
        let pair = Pair::new(&domain, &cq, size).expect("a queue pair");
        device.id().listen(8).expect("it listens");
        questions.listen(8).expect("it listens");
        Liar { events, device, _questions: questions, pair, at }
    }

    /// Answers questions until `is_over`. Returns the number of wrong keys sent.
    fn run(self, is_over: &AtomicBool) -> u32 {
        let (mut ids, mut lies) = (Vec::new(), 0);
        while !is_over.load(Ordering::Acquire) {
            let Some(event) = self.events.take() else {
                thread::yield_now();
                continue;
            };
            match (event.id, event.name) {
                (Some(id), QUESTIONS) => {
                    let answer = match Question::parse(&event.said) {
                        Some(Question::Key { .. }) => {
                            lies += 1;
                            Answer::Key(NO_KEY)
                        }
                        _ => Answer::Heard,
                    };
                    id.accept(&answer.bytes(), 0, 1).expect("answered");
                    ids.push(id);
                }
                (Some(id), _) => {
                    let hello = Hello::parse(&event.said).expect("a NIC asks");
                    self.pair.start(&id).expect("a pair");
                    let rights = Rights { write: true, read: true };
                    self.pair.connect(&id, rights).expect("a pair");
                    let welcome = Welcome { attributes: hello.attributes, token: 7 };
                    id.accept(&welcome.bytes(), 1, self.pair.number()).expect("accepted");
                    id.rename(LISTENER);
                    ids.push(id);
                }
                (None, _) => {}
            }
        }
        drop((ids, self.pair, self._questions, self.device));
        lies
    }
}

/// The device rejects the key, the VI breaks with a protection error, and no object is left.
#[test]
fn keys_that_a_peer_makes_up_break_the_vi() {
    let Some(_one) = in_the_lab("keys_that_a_peer_makes_up_break_the_vi") else { return };
    for operation in [Control::OP_RDMAWRITE, Control::OP_RDMAREAD] {
        let (is_over, lies) = (AtomicBool::new(false), AtomicU32::new(0));
        let liar = Liar::new();
        let host: Vec<u8> = [&[10, 77, 0, 1][..], &liar.at.port().to_be_bytes()].concat();
        thread::scope(|s| {
            s.spawn(|| lies.store(liar.run(&is_over), Ordering::Release));
            let nic = nic();
            let attributes = ViAttributes {
                enable_rdma_write: true,
                enable_rdma_read: true,
                ..ViAttributes::default()
            };
            let vi = nic.create_vi(attributes).expect("a VI");
            let memory = Memory::zeroed(8192);
            let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
            let server = NetAddress::new(&host, b"server");
            vi.connect_request(&nic.address(b"client"), &server, Some(PATIENCE))
                .expect("the liar accepts");
            let remote = RemoteSegment { address: 0x1000, handle: 5 };
            let data = [memory.segment(4096, 4096, handle)];
            let place = memory.descriptor(0).expect("room");
            place.prepare_rdma(operation, remote, &data, None).expect("it fits");
            vi.post_send(DescriptorAddress { address: memory.address(0), handle }).expect("posted");
            let status = vi.send_wait(Some(PATIENCE)).expect("it is done").status;
            assert!(status.contains(Status::RDMA_PROT_ERROR), "{operation:?}: {status:?}");
            assert_eq!(vi.state(), ViState::Error);
            vi.disconnect();
            nic.deregister_mem(handle).expect("nothing uses the memory");
            drop((vi, nic));
            is_over.store(true, Ordering::Release);
        });
        assert_eq!(lies.load(Ordering::Acquire), 1, "it was asked for the key");
        all_gone();
    }
}

/// Requests a connection with these bytes. Returns true if the NIC rejects it.
fn is_rejected(to: SocketAddr, said: &[u8]) -> bool {
    let events = Events::new().expect("a channel");
    let id = Id::new(&events, Space::Connections, 1).expect("an identifier");
    id.resolve(here(), to).expect("a way");
    loop {
        let Some(event) = events.take() else {
            thread::yield_now();
            continue;
        };
        match event.kind {
            EventKind::AddressResolved => id.resolve_route().expect("a way"),
            // A number that no queue pair of this process has.
            EventKind::RouteResolved => id.connect(said, 1, 0x00ab_cdef).expect("asked"),
            EventKind::Rejected(_) => return true,
            EventKind::Response | EventKind::Established => return false,
            EventKind::Unreachable => panic!("the NIC does not answer"),
            _ => {}
        }
    }
}

/// Replayed and imitated requests find no waiting program. The connection of the original request continues.
#[test]
fn requests_that_are_replayed_are_refused() {
    let Some(_one) = in_the_lab("requests_that_are_replayed_are_refused") else { return };
    let server = nic();
    let host = server.address(b"").host;
    let port = u16::from_be_bytes([host[4], host[5]]);
    thread::scope(|s| {
        s.spawn(|| echo(&server, LONG, 1));
        let client = nic();
        let end = End::new(&client, LONG);
        end.receive();
        connect(&client, &end, &host);
        end.is_echoed(1);
        let own = client.address(b"client").host;
        let hello = Hello {
            is_peer: false,
            attributes: ViAttributes { ptag: None, ..end.vi.attributes() },
            token: 1,
            port: u16::from_be_bytes([own[4], own[5]]),
            from: (*b"client").into(),
            to: (*b"server").into(),
        };
        let peers = Hello { is_peer: true, ..hello.clone() };
        for round in 2..6 {
            for said in [&hello.bytes()[..], &peers.bytes(), &[], &[round; 56]] {
                assert!(is_rejected(SocketAddr::new(here(), port), said), "{said:x?}");
            }
            end.is_echoed(round);
        }
        end.vi.disconnect();
        client.deregister_mem(end.handle).expect("nothing uses the memory");
    });
    nothing_left(server, Vec::new());
}
