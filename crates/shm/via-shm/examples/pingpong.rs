//! Measures the costs of a native VI: small messages back and forth, posts alone, and a stream. Sender and receiver are
//! two threads on two processors. For comparison, also measures a bare ring of 64-byte slots.
//!
//! `cargo run --release -p via-shm --example pingpong`
#![cfg(not(loom))]

use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::{
    Connection, DescriptorAddress, Done, MemAttributes, MemHandle, Memory, Nic, Vi, ViAttributes,
};
use via_shm::{ShmNic, ShmVi};

const ROUNDS: u32 = 500_000;
const WARM_UP: u32 = 50_000;
const SAMPLES: usize = 3;
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(10));

/// Binds the calling thread to one processor.
fn pin(cpu: usize) {
    let mut set = [0u64; 16];
    set[cpu / 64] = 1 << (cpu % 64);
    // SAFETY: the mask is a live array, and its size is passed.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) };
    assert_eq!(result, 0, "processor {cpu} cannot be had");
}

/// One end of a connection, with descriptors and buffers in one region.
struct End {
    vi: ShmVi,
    memory: Memory,
    handle: MemHandle,
}

const BUFFERS: usize = 64 << 10;
const BUFFER: usize = 64 << 10;

impl End {
    fn new(nic: &ShmNic) -> End {
        let memory = Memory::zeroed(BUFFERS + 64 * BUFFER);
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        let attributes = ViAttributes { max_transfer_size: 64 << 10, ..ViAttributes::default() };
        End { vi: nic.create_vi(attributes).unwrap(), memory, handle }
    }

    /// Prepares descriptor `i`, for `len` bytes of buffer `i`.
    fn prepare(&self, i: usize, len: usize) -> DescriptorAddress {
        let data = self.memory.segment(BUFFERS + i * BUFFER, len as u32, self.handle);
        self.memory.descriptor(i * 64).unwrap().prepare(&[data], None).unwrap();
        DescriptorAddress { address: self.memory.address(i * 64), handle: self.handle }
    }
}

/// Returns two connected ends, each with `recvs` posted receives.
fn pair(nic: &ShmNic, recvs: usize, len: usize) -> (End, End) {
    let (server, client) = (End::new(nic), End::new(nic));
    for end in [&server, &client] {
        for i in 0..recvs {
            end.vi.post_recv(end.prepare(i, len)).unwrap();
        }
    }
    let address = nic.address(b"pingpong");
    thread::scope(|s| {
        s.spawn(|| nic.connect_wait(&address, TIMEOUT).unwrap().accept(&server.vi).unwrap());
        while client.vi.connect_request(&address, &address, TIMEOUT).is_err() {
            thread::yield_now();
        }
    });
    (server, client)
}

fn recv(end: &End) -> DescriptorAddress {
    loop {
        match end.vi.recv_done() {
            Done::Completion(completion) => return completion.descriptor,
            Done::NotDone => spin_loop(),
            Done::Empty => panic!("nothing posted"),
        }
    }
}

/// Returns the one-way time of a message in nanoseconds. With `blocking`, receives by `recv_wait`.
fn ping_pong(nic: &ShmNic, len: usize, blocking: bool) -> f64 {
    let (server, client) = pair(nic, 32, len);
    let send = |end: &End, descriptor| {
        end.vi.post_send(descriptor).unwrap();
        assert!(matches!(end.vi.send_done(), Done::Completion(_)));
    };
    let take = |end: &End| {
        if blocking { end.vi.recv_wait(TIMEOUT).unwrap().descriptor } else { recv(end) }
    };
    thread::scope(|s| {
        s.spawn(|| {
            pin(1);
            let out = server.prepare(40, len);
            for _ in 0..WARM_UP + ROUNDS {
                let descriptor = take(&server);
                send(&server, out);
                // Other receives are posted, so this post can follow the answer.
                server.vi.post_recv(descriptor).unwrap();
            }
        });
        pin(0);
        let out = client.prepare(40, len);
        let mut begin = Instant::now();
        for i in 0..WARM_UP + ROUNDS {
            if i == WARM_UP {
                begin = Instant::now();
            }
            send(&client, out);
            let descriptor = take(&client);
            client.vi.post_recv(descriptor).unwrap();
        }
        begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / 2.0
    })
}

/// Returns the time of a message in nanoseconds, without transfers between processors: one thread runs both ends. With
/// `posting`, only the post.
fn software(nic: &ShmNic, len: usize, posting: bool) -> f64 {
    const BATCH: u32 = 32;
    let (server, client) = pair(nic, BATCH as usize, len);
    let out = client.prepare(40, len);
    pin(0);
    let rounds = ROUNDS / BATCH;
    let (begin, mut spent) = (Instant::now(), Duration::ZERO);
    for _ in 0..rounds {
        let posts = Instant::now();
        for _ in 0..BATCH {
            client.vi.post_send(out).unwrap();
        }
        spent += posts.elapsed();
        for _ in 0..BATCH {
            client.vi.send_done();
            let descriptor = recv(&server);
            server.vi.post_recv(descriptor).unwrap();
        }
    }
    let spent = if posting { spent } else { begin.elapsed() };
    spent.as_nanos() as f64 / f64::from(rounds * BATCH)
}

/// Returns the time to post a small send and take it back, in nanoseconds. The other end polls meanwhile. Sends `batch`
/// messages at a time.
fn posting(nic: &ShmNic, batch: usize) -> f64 {
    let (server, client) = pair(nic, 32, 64);
    let rounds = 2_000_000 / batch;
    thread::scope(|s| {
        s.spawn(|| {
            pin(1);
            let out = server.prepare(40, 4);
            for _ in 0..rounds {
                for _ in 0..batch {
                    let descriptor = recv(&server);
                    server.vi.post_recv(descriptor).unwrap();
                }
                server.vi.post_send(out).unwrap();
                server.vi.send_done();
            }
        });
        pin(0);
        let out = client.prepare(40, 4);
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            let begin = Instant::now();
            for _ in 0..batch {
                client.vi.post_send(out).unwrap();
                client.vi.send_done();
            }
            spent += begin.elapsed();
            let descriptor = recv(&client);
            client.vi.post_recv(descriptor).unwrap();
        }
        spent.as_nanos() as f64 / (rounds * batch) as f64
    })
}

/// Returns the bandwidth of a stream of messages of `len` bytes, in bytes per nanosecond.
fn stream(nic: &ShmNic, len: usize) -> f64 {
    const WINDOW: usize = 32;
    let (server, client) = pair(nic, WINDOW, len);
    let messages = (4usize << 30) / len.max(4096) / WINDOW * WINDOW;
    thread::scope(|s| {
        s.spawn(|| {
            pin(1);
            let out = server.prepare(40, 4);
            for n in 1..=messages {
                let descriptor = recv(&server);
                server.vi.post_recv(descriptor).unwrap();
                // Report to the peer after each half window.
                if n % (WINDOW / 2) == 0 {
                    server.vi.post_send(out).unwrap();
                    server.vi.send_done();
                }
            }
        });
        pin(0);
        let out = client.prepare(40, len);
        let begin = Instant::now();
        let mut room = WINDOW;
        for _ in 0..messages {
            if room == 0 {
                let descriptor = recv(&client);
                client.vi.post_recv(descriptor).unwrap();
                room += WINDOW / 2;
            }
            room -= 1;
            client.vi.post_send(out).unwrap();
            while client.vi.send_done() == Done::NotDone {
                spin_loop();
            }
        }
        (messages * len) as f64 / begin.elapsed().as_nanos() as f64
    })
}

#[repr(align(64))]
struct BareSlot([AtomicU64; 8]);

/// Returns the one-way time of a bare ring in nanoseconds: 64-byte slots with tag and data in one line, both ends
/// spinning.
fn bare_ring() -> f64 {
    let ring = || -> Vec<BareSlot> {
        (0..64).map(|_| BareSlot(core::array::from_fn(|_| AtomicU64::new(0)))).collect()
    };
    let (there, back) = (ring(), ring());
    let send = |ring: &[BareSlot], n: u64| {
        let slot = &ring[n as usize % 64].0;
        slot[1].store(n, Ordering::Relaxed);
        slot[0].store(n + 1, Ordering::Release);
    };
    let recv = |ring: &[BareSlot], n: u64| {
        let slot = &ring[n as usize % 64].0;
        while slot[0].load(Ordering::Acquire) != n + 1 {
            spin_loop();
        }
        slot[1].load(Ordering::Relaxed)
    };
    let total = u64::from(WARM_UP + ROUNDS);
    let start = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            pin(1);
            start.wait();
            for n in 0..total {
                recv(&there, n);
                send(&back, n);
            }
        });
        pin(0);
        start.wait();
        let mut begin = Instant::now();
        for n in 0..total {
            if n == u64::from(WARM_UP) {
                begin = Instant::now();
            }
            send(&there, n);
            recv(&back, n);
        }
        begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / 2.0
    })
}

/// Prints the median and the range of the samples.
fn show(name: &str, samples: &mut [f64], unit: &str, yardstick: Option<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let median = samples[samples.len() / 2];
    let (least, most) = (samples[0], samples[samples.len() - 1]);
    let ratio = yardstick.map_or(String::new(), |y| format!("  {:.2} x", median / y));
    println!("{name:<44} {median:8.1} {unit:<5} ({least:.1} to {most:.1}){ratio}");
    median
}

fn main() {
    let nic = ShmNic::open(&format!("pingpong-{}", std::process::id())).unwrap();
    type Run = fn(&ShmNic) -> f64;
    let mut runs: Vec<(&str, &str, Run, Vec<f64>)> = vec![
        ("bare ring, one way", "ns", |_| bare_ring(), vec![]),
        ("VI, 4 B, one way, polling", "ns", |nic| ping_pong(nic, 4, false), vec![]),
        ("VI, 4 B, one way, recv_wait", "ns", |nic| ping_pong(nic, 4, true), vec![]),
        ("VI, 64 B, one way, polling", "ns", |nic| ping_pong(nic, 64, false), vec![]),
        ("VI, 1 KB, one way, polling", "ns", |nic| ping_pong(nic, 1024, false), vec![]),
        ("software alone, 4 B, whole message", "ns", |nic| software(nic, 4, false), vec![]),
        ("software alone, 4 B, posting", "ns", |nic| software(nic, 4, true), vec![]),
        ("posting a 4 B send, 1 at a time", "ns", |nic| posting(nic, 1), vec![]),
        ("posting a 4 B send, 16 at a time", "ns", |nic| posting(nic, 16), vec![]),
        ("stream of 4 KB", "GB/s", |nic| stream(nic, 4096), vec![]),
        ("stream of 64 KB", "GB/s", |nic| stream(nic, 64 << 10), vec![]),
    ];
    // For use with a profiler: with an argument, run only measurements whose names contain it.
    if let Some(part) = std::env::args().nth(1) {
        runs.retain(|(name, ..)| name.contains(&part));
    }
    for _ in 0..SAMPLES {
        for (_, _, run, samples) in &mut runs {
            samples.push(run(&nic));
        }
    }
    let mut yardstick = None;
    for (name, unit, _, samples) in &mut runs {
        let median = show(name, samples, unit, yardstick.filter(|_| *unit == "ns"));
        yardstick = yardstick.or(Some(median));
    }
}
