//! Measures round trips and streams between two VIs on RDMA NICs, and ib_send_lat and ib_send_bw between the same two
//! NICs in the same run.
//!
//! `pingpong DEVICE ADDRESS [TURNS [ROUNDS]]`. Each end is a process, and all programs poll. Each turn prints figures
//! for the VIs and for perftest's programs. For messages of 4 bytes: the one-way time in microseconds, the median over
//! batches of 20 round trips. For messages of 64 KB: megabytes a second. At the end come the medians of all turns, and
//! the ratios of the VIs' figures to perftest's.
//!
//! `pingpong waits DEVICE [ROUNDS]`: how often each thread of a program that waits in `recv_wait` goes to sleep while
//! it waits for a late message.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{
    Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, Nic, Status, Vi,
    ViAttributes,
};
use via_verbs::{Config, VerbsNic, VerbsVi};

const SHORT: usize = 4;
const LONG: usize = 1 << 16;
/// Numbers of posted receives, and of sends in progress at most. perftest's programs use the same numbers.
const POSTED: usize = 512;
const UNDER_WAY: usize = 128;
/// Number of messages that one credit from the receiver stands for.
const CREDIT: usize = 128;
/// Round trips before the measurement, and round trips in one measured batch. In a guest, reading the clock is a system
/// call and takes as long as a tenth of a round trip.
const WARM: usize = 200;
const BATCH: usize = 20;
const PORT: u16 = 21_000;

/// A VI with its memory: first the descriptors, then one buffer for all of them.
struct End {
    vi: VerbsVi,
    memory: Memory,
    handle: MemHandle,
}

impl End {
    fn new(nic: &VerbsNic) -> End {
        let attributes = ViAttributes { max_transfer_size: LONG as u32, ..ViAttributes::default() };
        let memory = Memory::zeroed(128 * POSTED + 2 * LONG);
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        let end = End { vi: nic.create_vi(attributes).expect("a VI"), memory, handle };
        (0..POSTED).for_each(|n| end.receive(n));
        end
    }

    fn descriptor(&self, n: usize, data: usize, bytes: usize) -> DescriptorAddress {
        let data = [self.memory.segment(128 * POSTED + data, bytes as u32, self.handle)];
        self.memory.descriptor(n * 64).expect("room").prepare(&data, None).expect("it fits");
        DescriptorAddress { address: self.memory.address(n * 64), handle: self.handle }
    }

    fn receive(&self, n: usize) {
        self.vi.post_recv(self.descriptor(n % POSTED, 0, LONG)).expect("posted");
    }

    fn send(&self, n: usize, bytes: usize) {
        self.vi.post_send(self.descriptor(POSTED + n % POSTED, LONG, bytes)).expect("posted");
    }

    fn is_done(done: Done) -> bool {
        let Done::Completion(done) = done else { return false };
        let status = done.status;
        assert!(!status.intersects(Status::ERROR_MASK), "{status:?}");
        true
    }

    fn done(look: impl Fn() -> Done) {
        while !Self::is_done(look()) {}
    }

    fn bounce(&self, is_first: bool, rounds: usize) {
        for n in 0..rounds {
            if is_first {
                self.send(n, SHORT);
            }
            Self::done(|| self.vi.recv_done());
            self.receive(n);
            if !is_first {
                self.send(n, SHORT);
            }
            Self::done(|| self.vi.send_done());
        }
    }

    /// Does round trips, waiting in `recv_wait` for each message. This end delays each answer by `late`.
    fn wait(&self, is_first: bool, rounds: usize, late: Duration) {
        for n in 0..rounds {
            if is_first {
                self.send(n, SHORT);
            }
            self.vi.recv_wait(None).expect("received");
            self.receive(n);
            if !is_first {
                std::thread::sleep(late);
                self.send(n, SHORT);
            }
            self.vi.send_wait(None).expect("sent");
        }
    }

    /// Receives `count` long messages, and sends a credit after each [`CREDIT`] of them.
    fn sink(&self, count: usize) {
        for n in 0..count {
            Self::done(|| self.vi.recv_done());
            self.receive(n);
            if (n + 1) % CREDIT == 0 {
                self.send(n, 0);
                Self::done(|| self.vi.send_done());
            }
        }
    }

    fn stream(&self, count: usize) -> f64 {
        let begin = Instant::now();
        let (mut sent, mut done, mut acked) = (0, 0, 0);
        while acked < count {
            // Sends only messages for which the peer has posted a receive.
            if sent < count && sent - done < UNDER_WAY && sent - acked < POSTED - CREDIT {
                self.send(sent, LONG);
                sent += 1;
                continue;
            }
            if done < sent && Self::is_done(self.vi.send_done()) {
                done += 1;
            }
            if Self::is_done(self.vi.recv_done()) {
                self.receive(acked / CREDIT);
                acked += CREDIT;
            }
        }
        while done < sent {
            Self::done(|| self.vi.send_done());
            done += 1;
        }
        (count * LONG) as f64 / begin.elapsed().as_secs_f64() / 1048576.0
    }
}

/// Delay of a message after its receiver has begun to wait.
const LATE: Duration = Duration::from_millis(2);

/// Returns the names of this process's threads, and how often each has gone to sleep.
fn sleeps() -> Vec<(String, f64)> {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).expect("/proc");
    let one = |thread: std::path::PathBuf| {
        let status = read(thread.join("status"));
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let count = count.and_then(|count| count.trim().parse().ok()).expect("a count");
        (read(thread.join("comm")).trim().to_owned(), count)
    };
    let threads = std::fs::read_dir("/proc/self/task").expect("/proc");
    threads.map(|thread| one(thread.expect("a thread").path())).collect()
}

/// Prints the sleeps of the end whose peer answers [`LATE`].
fn waits(device: &str, rounds: usize) {
    let mut server = own("late", device, [rounds, 0]);
    line(&mut server);
    let (nic, end) = connected(device);
    end.wait(true, WARM, LATE);
    let before = sleeps();
    end.wait(true, rounds, LATE);
    for ((name, before), (_, after)) in before.iter().zip(sleeps()) {
        println!("{name:>16} {:8.2} sleeps a message", (after - before) / rounds as f64);
    }
    end.vi.disconnect();
    drop(nic);
    server.wait().expect("it ends");
}

/// Numbers of round trips, and of long messages.
type Counts = [usize; 2];

fn open(device: &str, port: u16) -> VerbsNic {
    let config = format!("{device}:{port}").parse::<Config>().unwrap_or_else(|why| panic!("{why}"));
    VerbsNic::open(&config).unwrap_or_else(|why| panic!("{why}"))
}

/// Runs the listening end, which calls `play` once it is connected.
fn server(device: &str, play: impl FnOnce(&End)) {
    let nic = open(device, PORT);
    let end = End::new(&nic);
    println!("listening");
    let request = nic.connect_wait(&nic.address(b"pingpong"), None).expect("a request");
    request.accept(&end.vi).expect("accepted");
    play(&end);
    // Waits until the other end disconnects.
    let _ = end.vi.recv_wait(None);
}

/// Runs the connecting end.
fn connected(device: &str) -> (VerbsNic, End) {
    let nic = open(device, PORT + 1);
    let end = End::new(&nic);
    let config: Config = format!("{device}:{PORT}").parse().expect("a device");
    let place = VerbsNic::address_at(&config, b"pingpong");
    while end.vi.connect_request(&nic.address(b"client"), &place, None)
        == Err(ConnectError::NoMatch)
    {}
    (nic, end)
}

fn client(device: &str, [short, long]: Counts) -> [f64; 2] {
    let (_nic, end) = connected(device);
    end.bounce(true, WARM);
    let times = (0..short / BATCH).map(|_| {
        let begin = Instant::now();
        end.bounce(true, BATCH);
        begin.elapsed().as_secs_f64() * 1e6 / (2 * BATCH) as f64
    });
    let time = median(times.collect());
    let rate = end.stream(long);
    end.vi.disconnect();
    [time, rate]
}

fn own(role: &str, device: &str, counts: Counts) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([role, device]).args(counts.map(|count| count.to_string()));
    command.stdout(Stdio::piped()).spawn().expect("it starts")
}

fn line(child: &mut Child) -> String {
    let mut said = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut said).expect("a line");
    said
}

fn vi(device: &str, counts: Counts) -> [f64; 2] {
    let mut server = own("server", device, counts);
    line(&mut server);
    let mut client = own("client", device, counts);
    let figures = line(&mut client);
    client.wait().expect("it ends");
    server.wait().expect("it ends");
    let mut figures = figures.split_whitespace().map(|it| it.parse().expect("a figure"));
    core::array::from_fn(|_| figures.next().expect("two figures"))
}

/// Runs a program of perftest, and returns the figure in column `place` of its last line.
fn perftest(
    program: &str,
    device: &str,
    address: &str,
    (bytes, count): (usize, usize),
    place: usize,
) -> f64 {
    let (bytes, count) = (bytes.to_string(), count.to_string());
    let command = || {
        let mut command = Command::new(program);
        command.args(["-d", device, "-n", &count, "-s", &bytes]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let mut server = command().spawn().expect("perftest is there");
    let figure = loop {
        std::thread::sleep(Duration::from_millis(500));
        let said = command().arg(address).output().expect("perftest is there");
        if said.status.success() || server.try_wait().is_ok_and(|ended| ended.is_some()) {
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let line = said.lines().rfind(|line| line.trim().starts_with(&bytes));
            let figure = line.and_then(|line| line.split_whitespace().nth(place)?.parse().ok());
            break figure.unwrap_or(f64::NAN);
        }
    };
    server.wait().expect("it ends");
    figure
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, usual| words.get(n).map_or(usual, |it| it.parse().expect("a number"));
    match words.first().map(String::as_str) {
        Some("server") => {
            return server(&words[1], |end| {
                end.bounce(false, WARM + number(2, 0));
                end.sink(number(3, 0));
            });
        }
        Some("late") => {
            return server(&words[1], |end| end.wait(false, WARM + number(2, 0), LATE));
        }
        Some("waits") => return waits(&words[1], number(2, 500)),
        Some("client") => {
            let [time, rate] = client(&words[1], [number(2, 0), number(3, 0)]);
            return println!("{time} {rate}");
        }
        _ => {}
    }
    let [device, address] = &words[..2] else { panic!("pingpong DEVICE ADDRESS [TURNS [ROUNDS]]") };
    let (turns, rounds) = (number(2, 5), number(3, 2000));
    let counts = [rounds.next_multiple_of(BATCH), (rounds / 2).next_multiple_of(CREDIT)];
    println!(
        "{:>12} {:>16} {:>12} {:>16}",
        "VI, us", "ib_send_lat, us", "VI, MB/s", "ib_send_bw, MB/s"
    );
    let mut all = [const { Vec::new() }; 4];
    for _ in 0..turns {
        let [time, rate] = vi(device, counts);
        let their_time = perftest("ib_send_lat", device, address, (SHORT, counts[0]), 4);
        let their_rate = perftest("ib_send_bw", device, address, (LONG, counts[1]), 3);
        println!("{time:12.2} {their_time:16.2} {rate:12.2} {their_rate:16.2}");
        let _ = std::io::stdout().flush();
        for (figures, figure) in all.iter_mut().zip([time, their_time, rate, their_rate]) {
            figures.push(figure);
        }
    }
    let [time, their_time, rate, their_rate] = all.map(median);
    println!("medians: {:.3} of the time, {:.3} of the rate", time / their_time, rate / their_rate);
    println!("{time:12.2} {their_time:16.2} {rate:12.2} {their_rate:16.2}");
}
