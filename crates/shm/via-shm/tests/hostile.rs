//! A peer writes random values into every part of the segment.
//!
//! Both ends are in this process. A third thread, which has found the segment, overwrites its words. Nothing may crash
//! or hang, and no byte outside the registered buffers may change. Each connection continues or ends in an error. Other
//! connections and later ones are not affected.
#![cfg(not(loom))]

use crate::common::Random;
use crate::common::intruder::{evil, scribble, segments};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::{Cause, Connection, Nic, Vi, ViAttributes, ViState};
use via_conformance::{Context, End};
use via_shm::layout::{Direction, OVERFLOW_BUFFER, SEGMENT};
use via_shm::pool::POOL;
use via_shm::request::DISCRIMINATOR;
use via_shm::ring::{Entry, SLOTS};
use via_shm::{Endpoint, Segment, ShmNic};

/// Returns the parts of a segment that its first VI uses: name, offset and length.
fn parts() -> Vec<(&'static str, usize, usize)> {
    // Computes the offsets in a segment created for this purpose.
    let (segment, _fd) = Segment::create().unwrap();
    let base = std::ptr::from_ref(segment.side(0)) as usize & !0xfff;
    let offset = |at: usize| at - base;
    let directions = offset(std::ptr::from_ref(segment.direction(0, 0)) as usize);
    let rings = offset(std::ptr::from_ref(segment.slots(0, 0)) as usize);
    let requests = offset(std::ptr::from_ref(segment.request(0)) as usize);
    let bulk = SEGMENT - 2 * via_shm::layout::VIS as usize * (OVERFLOW_BUFFER + POOL as usize);
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

/// Returns the two endpoints of a VI, as the sockets layer uses them, and their segment.
fn endpoints() -> (Segment, Endpoint, Endpoint) {
    let (segment, _fd) = Segment::create().unwrap();
    segment.recycle(0, false);
    // SAFETY: the segment is returned with the endpoints and outlives them in each test. One thread uses them.
    let (a, b) = unsafe { (Endpoint::new(&segment, 0, 0), Endpoint::new(&segment, 0, 1)) };
    (segment, a, b)
}

/// Sends `count` messages, and takes each off the queue.
fn pass(a: &mut Endpoint, b: &mut Endpoint, count: u32) {
    for n in 0..count {
        let bytes = vec![n as u8; [10, 5000][n as usize % 2]];
        assert!(a.tx.send(n, &bytes[..]).unwrap());
        let entry = b.rx.head().unwrap().unwrap();
        if let Some(position) = b.rx.advance(&entry).unwrap() {
            b.rx.release(position);
        }
    }
}

#[test]
fn undisturbed_ends_find_nothing_amiss_in_any_lap() {
    let (_segment, mut a, mut b) = endpoints();
    for _ in 0..3 * SLOTS {
        a.tx.audit().unwrap();
        b.tx.audit().unwrap();
        a.rx.audit().unwrap();
        b.rx.audit().unwrap();
        pass(&mut a, &mut b, 1);
    }
    while a.tx.send(0, b"x").unwrap() {}
    a.tx.audit().unwrap();
    b.rx.audit().unwrap();
}

#[test]
fn an_entry_that_is_overwritten_is_missed_by_both_ends() {
    for sent in [0, 1, SLOTS - 1, SLOTS, 3 * SLOTS + 5] {
        let (segment, mut a, mut b) = endpoints();
        pass(&mut a, &mut b, sent);
        a.tx.send(0, b"unread").unwrap();
        let slot = &segment.slots(0, 0)[(sent % SLOTS) as usize];
        let foreign = Entry { immediate: 0, len: 6, pool_offset: None };
        for tag in [sent + 1, sent + 7, sent ^ 1 << 20, u32::MAX - 1] {
            slot.publish(tag, foreign);
            assert!(b.rx.head().is_err(), "{sent} sent, {tag} in the place of the next");
            assert!(b.rx.audit().is_err());
            assert!(a.tx.audit().is_err());
        }
        // If the slot looks unused, only the sender can notice the change.
        slot.clear();
        assert_eq!(b.rx.head().is_err(), sent >= SLOTS);
        slot.publish(sent.wrapping_sub(SLOTS), foreign);
        assert_eq!(b.rx.head(), Ok(None));
        assert!(a.tx.audit().is_err());
        slot.publish(sent, foreign);
        a.tx.audit().unwrap();
    }
}

#[test]
fn receiver_sees_that_its_credit_is_overwritten() {
    let (segment, mut a, mut b) = endpoints();
    pass(&mut a, &mut b, 100);
    b.rx.audit().unwrap();
    let credit = &segment.direction(0, 0).credit;
    let (posted, released) = (credit.posted(), credit.released());
    assert!(posted > SLOTS && released > 0);
    credit.post(posted - 16);
    assert!(b.rx.audit().is_err());
    b.rx.repair();
    b.rx.audit().unwrap();
    credit.release(released - 64);
    assert!(b.rx.audit().is_err());
}

#[test]
fn announced_sleep_counts_until_the_next_wake_up() {
    let (segment, _a, _b) = endpoints();
    let wake_word = &segment.direction(0, 0).wake_word;
    let sleepers = || wake_word.look().is_some_and(|listeners| listeners.sleepers);
    wake_word.watch(5);
    assert!(!sleepers());
    wake_word.going_to_sleep();
    wake_word.going_to_sleep();
    assert!(sleepers());
    wake_word.wake();
    assert!(!sleepers());
    assert_eq!(wake_word.watchers(), 1 << 5);
    // The VI's next generation.
    wake_word.going_to_sleep();
    wake_word.clear();
    assert_eq!(wake_word.look(), None);
    wake_word.going_to_sleep();
    assert!(sleepers());
}

#[test]
fn a_mark_that_the_summary_has_lost_is_found_again() {
    let (segment, ..) = endpoints();
    let ready_list = segment.ready_list(0, 3);
    ready_list.reset(2);
    ready_list.going_to_sleep();
    assert_eq!(ready_list.notify(77), Some(2));
    // The summary is the word after the two words `sleeping` and `doorbell`.
    scribble(std::ptr::from_ref(ready_list) as usize + 8, 0);
    assert!(!ready_list.has_events());
    ready_list.notify(77);
    assert!(!ready_list.has_events(), "a mark is made once");
    ready_list.summarise();
    let mut seen = Vec::new();
    ready_list.drain(|vi| seen.push(vi));
    assert_eq!(seen, [77]);
}

#[test]
fn a_vi_in_use_is_not_requested_again_whatever_the_table_says() {
    let (segment, _fd) = Segment::create().unwrap();
    let in_use = std::cell::RefCell::new(Vec::new());
    let request = || {
        let reserve = |vi| {
            let unused = !in_use.borrow().contains(&vi);
            if unused {
                in_use.borrow_mut().push(vi);
            }
            unused
        };
        let free = |vi| in_use.borrow_mut().retain(|&other| other != vi);
        segment.request_connection_on(0, &[0; DISCRIMINATOR], reserve, free).unwrap()
    };
    let first = request();
    scribble(std::ptr::from_ref(segment.request(first)) as usize, 0);
    assert_ne!(request(), first);
    assert_eq!(in_use.borrow().len(), 2);
}
