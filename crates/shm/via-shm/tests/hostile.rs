//! A peer writes random values into every part of the segment.
//!
//! Both ends are in this process. A third thread, which has found the segment, overwrites its words. Nothing may crash
//! or hang, and no byte outside the registered buffers may change. Each connection continues or ends in an error. Other
//! connections and later ones are not affected.
#![cfg(not(loom))]

use crate::common::Random;
use crate::common::intruder::{evil, scribble, segments};
use sovia_ring::Segment;
use sovia_ring::layout::{Direction, OVERFLOW_BUFFER, SEGMENT};
use sovia_ring::pool::POOL;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::{Cause, Connection, Nic, Vi, ViAttributes, ViState};
use via_conformance::{Context, End};
use via_shm::ShmNic;

/// Returns the parts of a segment that its first VI uses: name, offset and length.
fn parts() -> Vec<(&'static str, usize, usize)> {
    // Computes the offsets in a segment created for this purpose.
    let (segment, _fd) = Segment::create().unwrap();
    let base = std::ptr::from_ref(segment.side(0)) as usize & !0xfff;
    let offset = |at: usize| at - base;
    let directions = offset(std::ptr::from_ref(segment.direction(0, 0)) as usize);
    let rings = offset(std::ptr::from_ref(segment.slots(0, 0)) as usize);
    let requests = offset(std::ptr::from_ref(segment.request(0)) as usize);
    let bulk = SEGMENT - 2 * sovia_ring::layout::VIS as usize * (OVERFLOW_BUFFER + POOL as usize);
    // The requests come last: once they are corrupt, connections take other VIs.
    vec![
        ("control blocks", directions, 2 * size_of::<Direction>()),
        ("rings", rings, 2 * size_of_val(segment.slots(0, 0))),
        ("pool", bulk, 1 << 20),
        ("header", 0, 16 << 10),
        ("requests", requests, 1024),
    ]
}

/// Returns the address of the segment that holds the first message of the pair. The segment stays mapped as long as the
/// pair lives. (Other segments, of earlier corrupt links, may be unmapped at any time.)
fn segment_of(pair: &[End<'_, ShmNic>; 2], rings: usize, mark: u64) -> Option<usize> {
    let [server, client] = pair;
    let mark = [mark.to_le_bytes(); 5].concat();
    client.write(0, &mark);
    client.send(600, 0, mark.len());
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let found = segments().into_iter().find(|segment| {
        let mut bytes = vec![0; 64 << 10];
        memory.read_exact_at(&mut bytes, (segment + rings) as u64).is_ok()
            && bytes.windows(mark.len()).any(|window| window == mark)
    });
    let done = server.received();
    assert_eq!(done.result(), Ok(mark.len() as u32));
    server.vi.post_recv(done.descriptor).unwrap();
    found
}

/// Sends and receives until the connection breaks or `stop` is set.
fn talk(end: &End<'_, ShmNic>, stop: &AtomicBool, seed: u64) {
    let short = Some(Duration::from_millis(1));
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        // A few at a time, so that some are always outstanding.
        for i in 0..random.below(12) {
            let len = [100, 4096, 30_000][random.below(3)];
            let data = [end.data(0, random.below(len))];
            let immediate = (i % 2 == 0).then_some(i as u32);
            if end.vi.post_send(end.descriptor(500 + i, &data, immediate)).is_err() {
                return;
            }
        }
        while let Ok(done) = end.vi.send_wait(short) {
            if done.result().is_err() {
                return;
            }
        }
        for _ in 0..random.below(12) {
            let Ok(done) = end.vi.recv_wait(short) else { break };
            let Ok(len) = done.result() else { return };
            assert!(len <= 32 << 10);
            end.vi.post_recv(done.descriptor).unwrap();
        }
    }
}

/// Returns two connected ends with posted receives. Each has a range of memory that no message may change.
fn pair<'n>(cx: &Context<'n, ShmNic>) -> Option<[End<'n, ShmNic>; 2]> {
    let make = || {
        let end = End::with(cx, 1 << 20, ViAttributes::default());
        for i in 0..80 {
            end.post_recv(i, 64 << 10, 32 << 10);
        }
        end.fill(96 << 10, 1 << 16, 99);
        end
    };
    let (server, client) = (make(), make());
    let connected = thread::scope(|s| {
        let accepted = s.spawn(|| {
            let connection = cx.nic.connect_wait(&cx.server, Some(Duration::from_secs(2)));
            connection.is_ok_and(|connection| connection.accept(&server.vi).is_ok())
        });
        client.request(cx).is_ok() && accepted.join().unwrap()
    });
    connected.then_some([server, client])
}

/// Checks that the end's memory is intact and that the VI can be disconnected.
fn is_orderly(end: &End<'_, ShmNic>) {
    end.expect(96 << 10, 1 << 16, 99);
    end.vi.disconnect();
    assert_eq!(end.vi.state(), ViState::Idle);
    while end.vi.recv_done().completion().is_some() {}
    while end.vi.send_done().completion().is_some() {}
    end.nothing_posted();
}

#[test]
fn no_scribbling_gets_anywhere() {
    const ROUNDS: usize = 60;
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed);
    println!("SEED={seed}");
    let parts = parts();
    let name = format!("hostile-{}", std::process::id());
    // A process on whose connection nothing is overwritten.
    let bystander = crate::common::start("hostile::bystander", &[("VIA_NIC", &name)]);
    let nic = ShmNic::open(&name).unwrap();
    let other = End::new(&Context { nic: &nic, server: nic.address(b"bystander") });
    other.post_recv(0, 0, 1000);
    other.request(&Context { nic: &nic, server: nic.address(b"bystander") }).unwrap();
    let mut random = Random(seed);

    let (mut connected, mut causes) = (0, Vec::new());
    for round in 0..ROUNDS {
        // If neither end notices that the link is corrupt, the link refuses some of its own connections.
        let discriminator = format!("round {round}");
        let cx = Context { nic: &nic, server: nic.address(discriminator.as_bytes()) };
        let Some(pair) = pair(&cx) else { continue };
        let Some(segment) = segment_of(&pair, parts[1].1, random.next()) else { continue };
        let [server, client] = pair;
        connected += 1;
        let (name, offset, len) = parts[round * parts.len() / ROUNDS];
        let stop = AtomicBool::new(false);
        let begin = Instant::now();
        thread::scope(|s| {
            s.spawn(|| {
                for i in 0..8000 {
                    let at = segment + offset + random.below(len / 8) * 8;
                    scribble(at, evil(&mut random, at));
                    if i % 100 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            s.spawn(|| talk(&server, &stop, 1));
            talk(&client, &stop, 2);
        });
        assert!(begin.elapsed() < crate::common::PATIENCE, "{name}: {:?}", begin.elapsed());
        for end in [&server, &client] {
            let cause = end.vi.cause();
            assert_eq!(cause.is_some(), end.vi.state() == ViState::Error);
            causes.extend(cause.map(|cause| (name, cause)));
        }
        [&server, &client].into_iter().for_each(is_orderly);
        other.send(1, 0, round);
        assert_eq!(other.received().result(), Ok(round as u32));
        other.post_recv(0, 0, 1000);
    }
    println!("{connected} connections, {} ends broke: {causes:#?}", causes.len());
    assert!(connected > ROUNDS / 4, "only {connected} connections came about");
    assert!(causes.iter().any(|cause| matches!(cause.1, Cause::Corrupt(_))), "nothing noticed");
    drop(other);
    crate::common::finish(bystander).unwrap();
    drop(nic);

    // Closing the NIC has unmapped the segment, and the next one is not corrupt.
    let nic = ShmNic::open(&name).unwrap();
    let [server, client] = pair(&Context { nic: &nic, server: nic.address(b"after") }).unwrap();
    client.send(100, 0, 100);
    assert_eq!(server.received().result(), Ok(100));
}

/// Echoes messages, in a child process. Returns at once if its environment variable is not set.
#[test]
fn bystander() {
    let Ok(name) = std::env::var("VIA_NIC") else { return };
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"bystander") };
    let end = End::new(&cx);
    end.post_recv(0, 0, 1000);
    end.accept(&cx);
    loop {
        let done = end.vi.recv_wait(Some(Duration::from_secs(30))).unwrap();
        let Ok(len) = done.result() else { break };
        end.vi.post_recv(done.descriptor).unwrap();
        end.send(1, 0, len as usize);
    }
    assert_eq!(end.vi.cause(), Some(Cause::PeerDisconnected));
}
