//! Measures the time of a message to a thread that sleeps, in a wait for one VI or on a completion queue.
//!
//! `cargo run -p via-shm --example asleep [MESSAGES]` prints medians in microseconds, from a post to the return of the
//! other thread's wait. The program measures one VI, then queues of 1, 4 and 12 VIs, and repeats the measurements
//! several times.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;
use via::{Attach, CompletionQueue, DescriptorAddress, MemAttributes, Memory, NetAddress, Nic, Vi};
use via::{DataSegment, ViAttributes};
use via_shm::{ShmNic, ShmVi};

/// Time after which the other thread is certainly asleep.
const REST: Duration = Duration::from_millis(2);
const WARM: usize = 20;

/// Returns two connected VIs of this process. `attach` applies to the second one.
fn pair(nic: &ShmNic, number: u8, attach: Attach<'_, via_shm::ShmCq>) -> [ShmVi; 2] {
    let host = &nic.attributes().local_address;
    let places = [NetAddress::new(host, &[b'a', number]), NetAddress::new(host, &[b'b', number])];
    let vis = [
        nic.create_vi(ViAttributes::default()).expect("a VI"),
        nic.create_vi_with(ViAttributes::default(), attach).expect("a VI"),
    ];
    vis[0].connect_peer_request(&places[0], &places[1], None).expect("it begins");
    vis[1].connect_peer_request(&places[1], &places[0], None).expect("it begins");
    for vi in &vis {
        vi.connect_peer_wait().expect("connected");
    }
    vis
}

/// Returns the median over `messages` messages, in microseconds. Uses `vis` VIs on a completion queue, or (with 0) one
/// VI without a completion queue.
fn measure(nic: &ShmNic, vis: u8, messages: usize) -> f64 {
    let cq = (vis > 0).then(|| nic.create_cq(64, 0).expect("a completion queue"));
    let attach = Attach { recv: cq.as_ref(), ..Attach::default() };
    let pairs: Vec<_> = (0..vis.max(1)).map(|number| pair(nic, number, attach)).collect();
    let [from, to] = &pairs[pairs.len() - 1];
    let memory = Memory::zeroed(8192);
    let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
    let descriptor = |at: usize| {
        let data: DataSegment = memory.segment(at + 256, 8, handle);
        memory.descriptor(at).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: memory.address(at), handle }
    };
    for (number, [_, other]) in pairs.iter().enumerate() {
        other.post_recv(descriptor(512 * number)).expect("posted");
    }
    let (begin, sent) = (Instant::now(), AtomicU64::new(0));
    let mut times: Vec<u64> = std::thread::scope(|s| {
        let receiver = s.spawn(|| {
            let mut times = Vec::new();
            for _ in 0..messages + WARM {
                if let Some(cq) = &cq {
                    cq.wait(None).expect("an entry");
                    let _ = to.recv_done();
                } else {
                    to.recv_wait(None).expect("a message");
                }
                times.push(begin.elapsed().as_nanos() as u64 - sent.load(Ordering::SeqCst));
                to.post_recv(descriptor(512 * (pairs.len() - 1))).expect("posted");
            }
            times
        });
        for _ in 0..messages + WARM {
            std::thread::sleep(REST);
            sent.store(begin.elapsed().as_nanos() as u64, Ordering::SeqCst);
            from.post_send(descriptor(7168)).expect("posted");
            from.send_wait(None).expect("sent");
        }
        receiver.join().expect("it ends")
    });
    times.drain(..WARM);
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1000.0
}

fn main() {
    let messages = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(300);
    let nic = ShmNic::open(&format!("asleep-{}", std::process::id())).expect("a NIC");
    println!("{:>10} {:>10} {:>10} {:>10}", "one VI", "queue of 1", "of 4", "of 12");
    for _ in 0..5 {
        let [vi, one, four, twelve] = [0, 1, 4, 12].map(|vis| measure(&nic, vis, messages));
        println!("{vi:10.1} {one:10.1} {four:10.1} {twelve:10.1}");
    }
}
