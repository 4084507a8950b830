//! The peer is killed while it connects, with both connection models. The surviving process gets an error in time,
//! keeps no resources, and can connect to others.
#![cfg(not(loom))]

use crate::common::{left_behind, start};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{Connection, NetAddress, Nic, Vi, ViAttributes, ViState};
use via_conformance::{Context, End};
use via_shm::ShmNic;

const SHORT: Option<Duration> = Some(Duration::from_millis(300));
/// Maximum time of a call, whatever happens to the peer, even on a busy machine.
const LONG: Duration = Duration::from_secs(20);

const ACCEPTS: &str = "accepts";
const REQUESTS: &str = "requests";
const BOTH: &str = "both";

fn end<'n>(cx: &Context<'n, ShmNic>) -> End<'n, ShmNic> {
    let end = End::with(cx, 4096, ViAttributes::default());
    end.post_recv(0, 0, 1000);
    end
}

/// Returns the local and remote address of peer `me`. The two peers have the numbers 0 and 1.
fn addresses(nic: &ShmNic, me: u8) -> (NetAddress, NetAddress) {
    (nic.address(&[b'p', me]), nic.address(&[b'p', me ^ 1]))
}

/// Tries to connect once, in the given way.
fn attempt(nic: &ShmNic, way: &str, me: u8) -> Result<(), ConnectError> {
    let cx = Context { nic, server: nic.address(b"connecting") };
    let end = end(&cx);
    let begin = Instant::now();
    let result = match way {
        ACCEPTS => nic.connect_wait(&cx.server, SHORT).and_then(|c| Ok(c.accept(&end.vi)?)),
        REQUESTS => end.vi.connect_request(&cx.client(), &cx.server, SHORT).map(drop),
        _ => {
            let (here, there) = addresses(nic, me);
            end.vi.connect_peer_request(&here, &there, SHORT).unwrap();
            end.vi.connect_peer_wait().map(drop)
        }
    };
    if result.is_ok() {
        end.post_send(1, 0, 100);
        let _ = end.vi.send_wait(SHORT);
        let _ = end.vi.recv_wait(SHORT);
    } else {
        assert!(matches!(end.vi.state(), ViState::Idle), "{}", end.vi.state());
    }
    assert!(begin.elapsed() < LONG, "{way}: {result:?} after {:?}", begin.elapsed());
    end.vi.disconnect();
    while end.vi.recv_done().completion().is_some() {}
    while end.vi.send_done().completion().is_some() {}
    end.nothing_posted();
    // The number of attempts is not limited, but a NIC's number of regions is.
    nic.deregister_mem(end.handle).unwrap();
    result
}

/// Runs the process at the other end, which connects again and again. Returns at once if its environment variables are
/// not set.
#[test]
fn other_end() {
    let (Ok(way), Ok(name)) = (env::var("VIA_WAY"), env::var("VIA_NIC")) else { return };
    let nic = ShmNic::open(&name).unwrap();
    loop {
        let _ = attempt(&nic, &way, 1);
    }
}

fn rounds(count: u64) {
    let nic = ShmNic::open(&format!("connecting-{}", std::process::id())).unwrap();
    let mut before = None;
    let mut connected = 0usize;
    for i in 0..count {
        for (mine, theirs) in [(ACCEPTS, REQUESTS), (REQUESTS, ACCEPTS), (BOTH, BOTH)] {
            let name = nic.attributes().name.clone();
            let mut child =
                start("faults_connecting::other_end", &[("VIA_WAY", theirs), ("VIA_NIC", &name)]);
            let (dead, met) = (AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|s| {
                s.spawn(|| {
                    let begin = Instant::now();
                    // Kill the peer during its first connection, or during a later one.
                    thread::sleep(Duration::from_micros(10_000));
                    while i % 3 != 0 && !met.load(Ordering::SeqCst) && begin.elapsed() < LONG {
                        thread::sleep(Duration::from_micros(100));
                    }
                    thread::sleep(Duration::from_micros(i * 2731 % 15_000));
                    child.kill().unwrap();
                    child.wait().unwrap();
                    dead.store(true, Ordering::SeqCst);
                });
                while !dead.load(Ordering::SeqCst) {
                    if attempt(&nic, mine, 0).is_ok() {
                        met.store(true, Ordering::SeqCst);
                        connected += 1;
                    }
                }
            });
            match before {
                // Resources that the first use allocates stay allocated.
                None => before = Some(left_behind()),
                Some(before) => before.is_all_there_is(),
            }
        }
    }
    println!("{connected} connections came about");
    assert!(connected > count as usize, "only {connected} connections");
}

#[test]
fn peer_killed_during_a_connect() {
    rounds(5);
}

#[test]
#[ignore = "soak: many connections that do not come about"]
fn peer_killed_during_a_connect_soak() {
    rounds(200);
}
