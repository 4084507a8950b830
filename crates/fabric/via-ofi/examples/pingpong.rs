//! Measures the latency of messages between two NICs on libfabric, and libfabric's own tagged ping-pong over the same
//! provider in the same run.
//!
//! `pingpong PROVIDER [ADDRESS ADDRESS [NETNS NETNS]]`: the provider (`tcp;ofi_rxm`, `shm`), the addresses of the two
//! ends, and the names of their network namespaces. Each end is a process, and all programs poll. Each turn prints
//! figures for the VIs and for `fi_pingpong`. The figures are the one-way time in microseconds for 4 bytes and for 1
//! MB, and megabytes a second for 1 MB. The last line of each size has the medians, and the ratio of the VI's time to
//! libfabric's.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::IntoRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{
    Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, NetAddress, Nic, Status,
    Vi, ViAttributes,
};
use via_ofi::{Config, OfiNic, OfiVi, Place};

const SIZES: [(usize, usize); 2] = [(4, 20_000), (1 << 20, 2_000)];
const TURNS: usize = 5;
/// Number of posted receives, and of descriptors in each queue.
const POSTED: usize = 2;

/// A VI with its memory: first the descriptors, then a buffer for each.
struct End {
    vi: OfiVi,
    memory: Memory,
    handle: MemHandle,
    size: usize,
}

impl End {
    fn new(nic: &OfiNic, size: usize) -> End {
        let attributes = ViAttributes { max_transfer_size: size as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(2 * POSTED * (64 + size));
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        let end = End { vi, memory, handle, size };
        (0..POSTED).for_each(|n| end.post_recv(n));
        end
    }

    fn descriptor(&self, n: usize) -> DescriptorAddress {
        let data = 2 * POSTED * 64 + n * self.size;
        let data = self.memory.segment(data, self.size as u32, self.handle);
        self.memory.descriptor(n * 64).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: self.memory.address(n * 64), handle: self.handle }
    }

    fn post_recv(&self, n: usize) {
        self.vi.post_recv(self.descriptor(n % POSTED)).expect("posted");
    }

    fn send(&self, n: usize) {
        self.vi.post_send(self.descriptor(POSTED + n % POSTED)).expect("posted");
    }

    fn done(look: impl Fn() -> Done) {
        loop {
            match look() {
                Done::Completion(done) => {
                    let status = done.status;
                    assert!(!status.intersects(Status::ERROR_MASK), "{status:?}");
                    return;
                }
                Done::NotDone => core::hint::spin_loop(),
                Done::Empty => panic!("nothing is posted"),
            }
        }
    }

    fn bounce(&self, first: bool, rounds: usize) {
        for n in 0..rounds {
            if first {
                self.send(n);
            }
            Self::done(|| self.vi.recv_done());
            self.post_recv(n);
            if !first {
                self.send(n);
            }
            // The answer acknowledges the first end's message. The next message acknowledges the other end's.
            if first || n > 0 {
                Self::done(|| self.vi.send_done());
            }
        }
        if !first {
            Self::done(|| self.vi.send_done());
        }
    }
}

/// Moves this process to the network namespace `name`.
fn enter(name: Option<&String>) {
    let Some(name) = name else { return };
    let file = std::fs::File::open(format!("/run/netns/{name}")).expect("a network namespace");
    sovia_sys::netns::enter(&sovia_sys::Fd::adopt(file.into_raw_fd())).expect("it can be entered");
}

fn open(provider: &str, address: Option<&String>) -> OfiNic {
    let at = address.map_or(String::new(), |address| format!("@{address}"));
    let place: Place = format!("{provider}{at}").parse().expect("a place");
    Config::new(place).open().unwrap_or_else(|why| panic!("{why}"))
}

/// Prints the NIC's address, and answers the client's messages of each size.
fn server(provider: &str, address: Option<&String>) {
    let nic = open(provider, address);
    let place = nic.address(b"pingpong");
    let host: Vec<String> = place.host.iter().map(|byte| byte.to_string()).collect();
    println!("{}", host.join(" "));
    for (size, rounds) in SIZES {
        let end = End::new(&nic, size);
        nic.connect_wait(&place, None).expect("a request").accept(&end.vi).expect("accepted");
        end.bounce(false, rounds / 10);
        end.bounce(false, rounds);
        // Waits until the other end disconnects.
        let _ = end.vi.recv_wait(None);
    }
}

/// Returns the one-way time for each size, in microseconds.
fn client(provider: &str, address: Option<&String>, server: &str) -> Vec<f64> {
    let nic = open(provider, address);
    let host: Vec<u8> = server.split_whitespace().map(|it| it.parse().expect("a byte")).collect();
    let place = NetAddress::new(&host, b"pingpong");
    let figure = |(size, rounds): (usize, usize)| {
        let end = End::new(&nic, size);
        let own = nic.address(b"client");
        while end.vi.connect_request(&own, &place, None) == Err(ConnectError::NoMatch) {}
        end.bounce(true, rounds / 10);
        let begin = Instant::now();
        end.bounce(true, rounds);
        let micros = begin.elapsed().as_secs_f64() * 1e6 / (2 * rounds) as f64;
        end.vi.disconnect();
        micros
    };
    SIZES.into_iter().map(figure).collect()
}

fn own(words: &[&str], address: Option<&String>, netns: Option<&String>) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(words).arg(address.map_or("", |it| it)).arg(netns.map_or("", |it| it));
    command.stdout(Stdio::piped()).spawn().expect("it starts")
}

fn line(child: &mut Child) -> String {
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut said).expect("a line");
    said
}

fn vi(provider: &str, addresses: [Option<&String>; 2], netns: [Option<&String>; 2]) -> Vec<f64> {
    let mut server = own(&["server", provider, ""], addresses[0], netns[0]);
    let host = line(&mut server);
    let mut client = own(&["client", provider, host.trim()], addresses[1], netns[1]);
    let figures = line(&mut client);
    client.wait().expect("it ends");
    server.wait().expect("it ends");
    figures.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect()
}

/// Returns the one-way time of libfabric's own program, in microseconds.
fn libfabric(
    provider: &str,
    server: Option<&String>,
    netns: [Option<&String>; 2],
    port: usize,
    (size, rounds): (usize, usize),
) -> f64 {
    let (port, rounds, size) = (port.to_string(), rounds.to_string(), size.to_string());
    let command = |netns: Option<&String>| {
        let words = ["-p", provider, "-e", "rdm", "-m", "tagged", "-I", &rounds, "-S", &size];
        let mut command = match netns {
            Some(netns) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", netns, "fi_pingpong"]);
                command
            }
            None => Command::new("fi_pingpong"),
        };
        command.args(words);
        command.stdout(Stdio::piped());
        command
    };
    let mut waiting = command(netns[0]).args(["-B", &port]).spawn().expect("fi_pingpong");
    std::thread::sleep(Duration::from_millis(500));
    let at = server.map_or("127.0.0.1", |server| server);
    let asking = command(netns[1]).args(["-P", &port, at]).output().expect("fi_pingpong");
    let mut said = String::new();
    let _ = waiting.stdout.take().expect("a pipe").read_to_string(&mut said);
    waiting.wait().expect("it ends");
    // Columns of the last line: bytes, sent, acknowledged, total, time, MB/sec, usec/xfer, Mxfers/sec.
    let said = String::from_utf8_lossy(&asking.stdout).into_owned();
    let last = said.lines().last().unwrap_or_default();
    last.split_whitespace().nth(6).and_then(|it| it.parse().ok()).unwrap_or(f64::NAN)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |n: usize| words.get(n).filter(|word| !word.is_empty());
    match word(0).map(String::as_str) {
        Some("server") => {
            enter(word(4));
            return server(&words[1], word(3));
        }
        Some("client") => {
            enter(word(4));
            let figures = client(&words[1], word(3), &words[2]);
            println!("{}", figures.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
            return;
        }
        _ => {}
    }
    let provider = word(0).expect("a provider");
    let (addresses, netns) = ([word(1), word(2)], [word(3), word(4)]);
    println!(
        "{:>9} {:>12} {:>14} {:>12} {:>14}",
        "bytes", "VI, us", "libfabric, us", "VI, MB/s", "libfabric, MB/s"
    );
    let print = |size: usize, [vi, libfabric]: [f64; 2]| {
        let rate = |micros: f64| size as f64 / micros;
        println!("{size:>9} {vi:12.2} {libfabric:14.2} {:12.1} {:14.1}", rate(vi), rate(libfabric));
        let _ = std::io::stdout().flush();
    };
    let mut all = [const { [const { Vec::new() }; 2] }; SIZES.len()];
    for turn in 0..TURNS {
        let figures = vi(provider, addresses, netns);
        for (n, size) in SIZES.into_iter().enumerate() {
            let port = 47_600 + turn * SIZES.len() + n;
            let both = [figures[n], libfabric(provider, word(1), netns, port, size)];
            print(size.0, both);
            all[n][0].push(both[0]);
            all[n][1].push(both[1]);
        }
    }
    for ((size, _), [vi, libfabric]) in SIZES.into_iter().zip(all) {
        let both = [median(vi), median(libfabric)];
        println!("median, {:.3} of libfabric's time:", both[0] / both[1]);
        print(size, both);
    }
}
