//! Measures the latency of a message between two NICs, and their throughput, and compares both with TCP.
//!
//! The command is `pingpong PLACE PLACE [NETNS NETNS [ADDRESS]]`. `PLACE` is the port of a NIC (`udp:10.0.0.1:7000`,
//! `eth:eth0`), and `NETNS` the name of its network namespace. `ADDRESS` is the address of the TCP server in the first
//! namespace. Without `ADDRESS`, a run with a port other than UDP leaves TCP out. Prints the one-way time of 4 bytes in
//! microseconds, and gigabits per second for messages of 32 KB. Both ends poll in one series, and wait in the other.
//! With `CONTROL=fixed` in the environment, only the window limits the NICs.

use sovia_sys::{Fd, netns};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::sync::mpsc::channel;
use std::time::Instant;
use via::error::ConnectError;
use via::{
    Completion, Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, NetAddress,
    Nic, Status, Vi, ViAttributes,
};
use via_eth::{Config, EthNic, EthVi, Place};

const SMALL: usize = 4;
const LARGE: usize = 32 << 10;
const ROUNDS: usize = 20_000;
const TURNS: usize = 5;
/// Number of messages of a bulk transfer.
const MESSAGES: usize = 16 << 10;
/// Number of posted receives, and number of messages per permission to go on.
const POSTED: usize = 32;
const STEP: usize = 8;

/// Moves the calling thread into a network namespace.
fn enter(name: Option<&String>) {
    let Some(name) = name else { return };
    let file = std::fs::File::open(format!("/run/netns/{name}")).expect("a network namespace");
    netns::enter(&Fd::adopt(file.into_raw_fd())).expect("it can be entered");
}

/// A VI with its memory: descriptors, then a buffer for each descriptor. Receives come before sends.
struct End {
    vi: EthVi,
    memory: Memory,
    handle: MemHandle,
    polls: bool,
}

impl End {
    fn new(nic: &EthNic, polls: bool) -> End {
        let attributes =
            ViAttributes { max_transfer_size: LARGE as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(2 * POSTED * (64 + LARGE));
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        let end = End { vi, memory, handle, polls };
        (0..POSTED).for_each(|n| end.post_recv(n));
        end
    }

    fn descriptor(&self, n: usize, len: usize) -> DescriptorAddress {
        let data = self.memory.segment(2 * POSTED * 64 + n * LARGE, len as u32, self.handle);
        self.memory.descriptor(n * 64).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: self.memory.address(n * 64), handle: self.handle }
    }

    fn post_recv(&self, n: usize) {
        self.vi.post_recv(self.descriptor(n % POSTED, LARGE)).expect("posted");
    }

    fn send(&self, n: usize, len: usize) {
        self.vi.post_send(self.descriptor(POSTED + n % POSTED, len)).expect("posted");
    }

    fn received(&self) {
        self.done(|| self.vi.recv_done(), || self.vi.recv_wait(None));
    }

    fn sent(&self) {
        self.done(|| self.vi.send_done(), || self.vi.send_wait(None));
    }

    fn done<E: core::fmt::Debug>(
        &self,
        look: impl Fn() -> Done,
        wait: impl Fn() -> Result<Completion, E>,
    ) {
        let done = loop {
            if !self.polls {
                break wait().expect("it comes");
            }
            match look() {
                Done::Completion(done) => break done,
                Done::NotDone => core::hint::spin_loop(),
                Done::Empty => panic!("nothing is posted"),
            }
        };
        assert!(!done.status.intersects(Status::ERROR_MASK), "{:?}", done.status);
    }

    /// Returns the one-way time in microseconds.
    fn bounce(&self, first: bool) -> f64 {
        let begin = Instant::now();
        for n in 0..ROUNDS {
            if first {
                self.send(n, SMALL);
            }
            self.received();
            self.post_recv(n);
            if !first {
                self.send(n, SMALL);
            }
            // The answer acknowledges the first end's message. The next message acknowledges the other end's.
            if first || n > 0 {
                self.sent();
            }
        }
        if !first {
            self.sent();
        }
        begin.elapsed().as_secs_f64() * 1e6 / (2 * ROUNDS) as f64
    }

    /// Returns gigabits per second.
    fn stream(&self, first: bool) -> f64 {
        let begin = Instant::now();
        let mut told = 0;
        for n in 0..MESSAGES {
            if first {
                // The other end has receives for all messages under way.
                while n - told * STEP >= POSTED - STEP {
                    self.received();
                    self.post_recv(told);
                    told += 1;
                }
                if n >= POSTED / 2 {
                    self.sent();
                }
                self.send(n, LARGE);
            } else {
                self.received();
                self.post_recv(n);
                if (n + 1) % STEP == 0 {
                    self.send(n / STEP, SMALL);
                    self.sent();
                }
            }
        }
        while first && told < MESSAGES / STEP {
            self.received();
            self.post_recv(told);
            told += 1;
        }
        (0..if first { POSTED / 2 } else { 0 }).for_each(|_| self.sent());
        (MESSAGES * LARGE * 8) as f64 / begin.elapsed().as_secs_f64() / 1e9
    }
}

fn config(place: &Place) -> Config {
    let config = Config::new(place.clone());
    match std::env::var("CONTROL") {
        Ok(control) => Config { control: control.parse().expect("bbr or fixed"), ..config },
        Err(_) => config,
    }
}

fn ends(place: &[Place; 2], namespaces: [Option<&String>; 2], polls: bool) -> [f64; 2] {
    let (tell, told) = channel::<Vec<u8>>();
    std::thread::scope(|s| {
        s.spawn(move || {
            enter(namespaces[0]);
            let nic = config(&place[0]).open().expect("a NIC");
            let end = End::new(&nic, polls);
            let place = nic.address(b"pingpong");
            tell.send(place.host.to_vec()).expect("the other thread listens");
            let request = nic.connect_wait(&place, None).expect("a request");
            request.accept(&end.vi).expect("accepted");
            end.bounce(false);
            end.stream(false);
            // The other end disconnects.
            let _ = end.vi.recv_wait(None);
        });
        enter(namespaces[1]);
        let nic = config(&place[1]).open().expect("a NIC");
        let end = End::new(&nic, polls);
        let server = NetAddress::new(&told.recv().expect("a NIC"), b"pingpong");
        // Repeats the request until the other end waits for it.
        while end.vi.connect_request(&nic.address(b"client"), &server, None)
            == Err(ConnectError::NoMatch)
        {}
        let figures = [end.bounce(true), end.stream(true)];
        end.vi.disconnect();
        figures
    })
}

/// Reads until `bytes` is full. The mode of the socket decides if the thread polls or waits.
fn fill(stream: &mut TcpStream, mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        match stream.read(bytes) {
            Ok(0) => panic!("the other end has gone"),
            Ok(n) => bytes = &mut bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => core::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn put(stream: &mut TcpStream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => core::hint::spin_loop(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn converse(mut stream: TcpStream, first: bool, polls: bool) -> [f64; 2] {
    stream.set_nodelay(true).expect("an option");
    stream.set_nonblocking(polls).expect("a mode");
    let (begin, mut bytes) = (Instant::now(), vec![0; LARGE]);
    for _ in 0..ROUNDS {
        if first {
            put(&mut stream, &[0; SMALL]);
        }
        fill(&mut stream, &mut bytes[..SMALL]);
        if !first {
            put(&mut stream, &[0; SMALL]);
        }
    }
    let micros = begin.elapsed().as_secs_f64() * 1e6 / (2 * ROUNDS) as f64;
    let begin = Instant::now();
    for _ in 0..MESSAGES {
        if first { put(&mut stream, &bytes) } else { fill(&mut stream, &mut bytes) }
    }
    if first {
        fill(&mut stream, &mut bytes[..1])
    } else {
        put(&mut stream, &[0])
    }
    [micros, (MESSAGES * LARGE * 8) as f64 / begin.elapsed().as_secs_f64() / 1e9]
}

fn tcp(at: IpAddr, namespaces: [Option<&String>; 2], polls: bool) -> [f64; 2] {
    let (tell, told) = channel();
    std::thread::scope(|s| {
        s.spawn(move || {
            enter(namespaces[0]);
            let listener = TcpListener::bind((at, 0)).expect("an address of this host's");
            tell.send(listener.local_addr().expect("a port")).expect("the other thread listens");
            converse(listener.accept().expect("a connection").0, false, polls);
        });
        enter(namespaces[1]);
        let server = told.recv().expect("a server");
        converse(TcpStream::connect(server).expect("a connection"), true, polls)
    })
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let place = |n: usize| words.get(n).expect("two places").parse().expect("a place");
    let places: [Place; 2] = [place(0), place(1)];
    let namespaces = [words.get(2), words.get(3)];
    let at: Option<IpAddr> = match (words.get(4), &places[0]) {
        (Some(at), _) => Some(at.parse().expect("an address")),
        (None, Place::Udp(at)) => Some(at.ip()),
        (None, _) => None,
    };
    println!(
        "{:>9} {:>12} {:>12} {:>12} {:>12}",
        "", "VI, us", "TCP, us", "VI, Gbit/s", "TCP, Gbit/s"
    );
    for turn in 0..2 * TURNS {
        let polls = turn % 2 == 0;
        // Uses separate threads, because each thread enters a namespace.
        let [vi, tcp] = std::thread::scope(|s| {
            let vi = s.spawn(|| ends(&places, namespaces, polls)).join().expect("figures");
            let tcp =
                at.map(|at| s.spawn(move || tcp(at, namespaces, polls)).join().expect("figures"));
            [vi, tcp.unwrap_or([f64::NAN; 2])]
        });
        let how = if polls { "looking" } else { "waiting" };
        println!("{how:>9} {:12.2} {:12.2} {:12.2} {:12.2}", vi[0], tcp[0], vi[1], tcp[1]);
    }
}
