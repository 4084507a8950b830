//! Lanes and stations on NICs of one process, for the tests.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use sovia_lane::{Config, Counters, Device, Event, Lane, PeerConfig};
use sovia_nic::{AnyNic, AnyVi};
use sovia_sys::Errno;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use via::error::ConnectError;
use via::{
    Attach, Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, NetAddress, Nic, Vi,
    ViAttributes,
};

/// Time after which a test gives up waiting.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// Waits until `holds` returns true. Panics after [`WATCHDOG`].
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + WATCHDOG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Names of two NICs that no other test uses.
pub(crate) type Places = [String; 2];

fn in_shared_memory() -> Places {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    ["a", "b"].map(|end| format!("shm:lane-{}-{number}{end}", std::process::id()))
}

fn by_udp() -> Places {
    let sockets = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| format!("udp:{}", socket.local_addr().unwrap()))
}

/// Runs a test case over each provider.
pub(crate) fn over_each(case: impl Fn(&Places)) {
    case(&in_shared_memory());
    case(&by_udp());
}

/// Device made of two queues: of outgoing packets and of received packets.
pub(crate) struct Queues {
    out: Mutex<Receiver<Vec<u8>>>,
    come: Mutex<Sender<Vec<u8>>>,
}

impl Device for Queues {
    fn receive(&self, buffer: &mut [u8]) -> sovia_sys::Result<usize> {
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let packet = out.recv().map_err(|_| Errno::EBADFD)?;
        buffer[..packet.len()].copy_from_slice(&packet);
        Ok(packet.len())
    }

    fn send(&self, packet: &[u8]) -> sovia_sys::Result<()> {
        let come = self.come.lock().unwrap_or_else(PoisonError::into_inner);
        come.send(packet.to_vec()).map_err(|_| Errno::EIO)
    }
}

/// A lane, with the test's ends of its device's queues.
pub(crate) struct Host {
    pub(crate) lane: Lane<AnyNic, Queues>,
    pub(crate) out: Option<Sender<Vec<u8>>>,
    pub(crate) come: Receiver<Vec<u8>>,
    pub(crate) events: Receiver<Event>,
}

impl Host {
    /// Starts a lane on the NIC `own`, with a peer on the NIC `peer` that has these networks.
    pub(crate) fn start(own: &str, peer: &str, networks: &[&str], mtu: usize) -> Host {
        let (out, outgoing) = channel();
        let (incoming, come) = channel();
        let (tell, events) = channel();
        let device = Queues { out: Mutex::new(outgoing), come: Mutex::new(incoming) };
        let peer = PeerConfig {
            name: "the peer".into(),
            host: AnyNic::host_of(peer).unwrap(),
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
        };
        let tell = Mutex::new(tell);
        let report = move |event| {
            let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(event);
        };
        let nic = AnyNic::open_at(own).unwrap();
        let lane = Lane::up(nic, device, Config { mtu, peers: vec![peer] }, report).unwrap();
        Host { lane, out: Some(out), come, events }
    }

    /// Starts two lanes that are each other's peers.
    fn pair(places: &Places, mtu: usize) -> [Host; 2] {
        let [a, b] = places;
        [
            Host::start(a, b, &["10.0.0.2/32", "fd00::2/128"], mtu),
            Host::start(b, a, &["10.0.0.1/32", "fd00::1/128"], mtu),
        ]
    }

    /// Starts two such lanes and connects them by a packet in each direction.
    pub(crate) fn pair_that_has_met(places: &Places, mtu: usize) -> [Host; 2] {
        let hosts = Host::pair(places, mtu);
        for (from, host) in hosts.iter().enumerate() {
            // Until the other lane accepts connections, packets for it are dropped.
            let mut sent = 0;
            until("they meet", || {
                if host.lane.counters().unreachable == sent {
                    host.send(numbered(from, 0, 4));
                    sent += 1;
                }
                host.lane.counters().sent > 0
            });
            assert_eq!(hosts[1 - from].received(), numbered(from, 0, 4));
            while host.event() != "the peer is connected" {}
        }
        hosts
    }

    pub(crate) fn send(&self, packet: Vec<u8>) {
        self.out.as_ref().unwrap().send(packet).unwrap();
    }

    #[track_caller]
    pub(crate) fn received(&self) -> Vec<u8> {
        let packet = self.come.recv_timeout(WATCHDOG);
        packet.unwrap_or_else(|_| panic!("no packet comes: {}", self.lane.counters()))
    }

    /// Returns the next event's text.
    #[track_caller]
    pub(crate) fn event(&self) -> String {
        self.events.recv_timeout(WATCHDOG).expect("an event comes").to_string()
    }

    #[track_caller]
    pub(crate) fn counts(&self, what: &str, holds: impl Fn(&Counters) -> bool) {
        until(what, || holds(&self.lane.counters()));
    }
}

/// Makes a packet with this payload and an unused protocol number.
pub(crate) fn packet(source: &str, destination: &str, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = [source, destination].map(|text| text.parse::<IpAddr>().unwrap());
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut bytes = if source.is_ipv4() {
        vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0]
    } else {
        vec![0x60, 0, 0, 0, 0, 0, 253, 64]
    };
    let (at, len) = if source.is_ipv4() { (2, 20 + payload.len()) } else { (4, payload.len()) };
    bytes[at..at + 2].copy_from_slice(&(len as u16).to_be_bytes());
    bytes.extend(octets(source));
    bytes.extend(octets(destination));
    bytes.extend(payload);
    bytes
}

/// Makes a numbered packet from one lane of a pair to the other. `from` is the sender's index.
pub(crate) fn numbered(from: usize, number: u32, len: usize) -> Vec<u8> {
    let addresses = ["10.0.0.1", "10.0.0.2"];
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(len.max(4), number as u8);
    packet(addresses[from], addresses[1 - from], &payload)
}

/// A peer without a lane: the test controls its VIs directly.
pub(crate) struct Station {
    nic: AnyNic,
    memory: Memory,
    handle: MemHandle,
}

/// Number of descriptors of a station.
const SLOTS: usize = 600;
const SLOT: usize = 2048;

impl Station {
    pub(crate) fn at(place: &str) -> Station {
        let nic = AnyNic::open_at(place).unwrap();
        let memory = Memory::zeroed(SLOTS * (64 + SLOT));
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        Station { nic, memory, handle }
    }

    pub(crate) fn vi(&self, mtu: u32) -> AnyVi {
        let attributes = ViAttributes { max_transfer_size: mtu, ..ViAttributes::default() };
        self.nic.create_vi_with(attributes, Attach::default()).unwrap()
    }

    fn own(&self) -> NetAddress {
        NetAddress::new(&self.nic.attributes().local_address, b"sovia-lane")
    }

    /// Requests a connection to a lane. Tries again while the lane is not waiting for a request.
    pub(crate) fn connect(&self, vi: &AnyVi, lane: &str) -> Result<ViAttributes, ConnectError> {
        let lane = NetAddress::new(&AnyNic::host_of(lane).unwrap(), b"sovia-lane");
        let deadline = Instant::now() + WATCHDOG;
        loop {
            let asked = vi.connect_request(&self.own(), &lane, Some(WATCHDOG));
            if asked != Err(ConnectError::NoMatch) || Instant::now() > deadline {
                return asked;
            }
        }
    }

    /// Accepts a connection that the lane requests.
    pub(crate) fn accept(&self, vi: &AnyVi) {
        let request = self.nic.connect_wait(&self.own(), Some(WATCHDOG)).unwrap();
        request.accept(vi).unwrap();
    }

    fn descriptor(&self, slot: usize, len: usize, immediate: Option<u32>) -> DescriptorAddress {
        let data = self.memory.segment(SLOTS * 64 + slot * SLOT, len as u32, self.handle);
        let data = if len > 0 { vec![data] } else { vec![] };
        self.memory.descriptor(slot * 64).unwrap().prepare(&data, immediate).unwrap();
        DescriptorAddress { address: self.memory.address(slot * 64), handle: self.handle }
    }

    pub(crate) fn post_recv(&self, vi: &AnyVi, slot: usize, len: usize) {
        vi.post_recv(self.descriptor(slot, len, None)).unwrap();
    }

    /// Sends these bytes and waits until the NIC has completed the send.
    #[track_caller]
    pub(crate) fn send(&self, vi: &AnyVi, bytes: &[u8], immediate: Option<u32>) {
        assert!(self.try_send(vi, bytes, immediate), "it is sent");
    }

    /// Sends these bytes, and returns true if the send succeeded.
    pub(crate) fn try_send(&self, vi: &AnyVi, bytes: &[u8], immediate: Option<u32>) -> bool {
        self.memory.write(SLOTS * 64 + (SLOTS - 1) * SLOT, bytes);
        vi.post_send(self.descriptor(SLOTS - 1, bytes.len(), immediate)).is_ok()
            && vi.send_wait(Some(WATCHDOG)).is_ok_and(|done| done.result().is_ok())
    }

    /// Accepts the lane's connection for `vi`, while the host sends copies of `packet`.
    ///
    /// Until the station waits for a request, the lane drops each packet, and the next packet causes another request.
    /// On return, one packet waits for the VI.
    pub(crate) fn accept_of(&self, vi: &AnyVi, host: &Host, packet: &[u8]) {
        std::thread::scope(|scope| {
            let accepted = scope.spawn(|| self.accept(vi));
            let before = host.lane.counters().unreachable;
            let mut sent = 0;
            while !accepted.is_finished() {
                if host.lane.counters().unreachable == before + sent {
                    host.send(packet.to_vec());
                    sent += 1;
                }
                std::thread::yield_now();
            }
        });
    }

    /// Returns the bytes of the next message, which the receive in `slot` takes.
    pub(crate) fn received(&self, vi: &AnyVi, slot: usize) -> Vec<u8> {
        let done = vi.recv_wait(Some(WATCHDOG)).unwrap();
        let mut bytes = vec![0; done.result().unwrap() as usize];
        assert!(self.memory.read(SLOTS * 64 + slot * SLOT, &mut bytes));
        bytes
    }

    /// Returns the first count from the lane: the number of receives that the lane has posted.
    pub(crate) fn told(&self, vi: &AnyVi) -> u32 {
        let done = vi.recv_wait(Some(WATCHDOG)).unwrap();
        assert_eq!(done.result(), Ok(0));
        done.immediate.unwrap()
    }
}
