//! A peer writes random values into the words of RDMAs, while this process revokes memory and wakes sleeping threads.
//! Nothing may crash, no call may hang, and memory without RDMA rights must not change. Other connections are not
//! affected.
#![cfg(not(loom))]

use crate::common::Random;
use crate::common::intruder::{evil, scribble, segments};
use core::mem::offset_of;
use sovia_ring::Segment;
use sovia_ring::layout::{Direction, Side};
use sovia_ring::ready_list::ReadyList;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::{Attach, CompletionQueue, Connection, Control, MemAttributes, Memory, Nic};
use via::{Reliability, Vi, ViAttributes, ViState};
use via_conformance::{Context, End};
use via_shm::{ShmCq, ShmNic};

/// Maximum time of a call, whatever the words contain.
const LONG: Duration = Duration::from_secs(2);
/// Additional time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const TARGET: usize = 256 << 10;
const OWN: usize = 1 << 20;

/// Returns words of a segment that its first VI uses: name, offsets and lengths.
fn parts() -> Vec<(&'static str, Vec<(usize, usize)>)> {
    // Computes the offsets in a segment created for this purpose.
    let (segment, _fd) = Segment::create().unwrap();
    let base = std::ptr::from_ref(segment.side(0)) as usize & !0xfff;
    let directions =
        [0, 1].map(|from| std::ptr::from_ref(segment.direction(0, from)) as usize - base);
    let sides = [0, 1].map(|side| std::ptr::from_ref(segment.side(side)) as usize - base);
    let each = |at: [usize; 2], offset, len| at.map(|at| (at + offset, len)).to_vec();
    let ready_list = size_of::<ReadyList>();
    let ready_lists = offset_of!(Side, ready_lists);
    vec![
        ("the initiator's words", each(directions, offset_of!(Direction, writer), 64)),
        ("whether it reaches", each(directions, offset_of!(Direction, writer) + 6 * 8, 8)),
        ("the target's words", each(directions, offset_of!(Direction, reader), 64)),
        ("the wake words", each(directions, offset_of!(Direction, wake_word), 128)),
        ("the counts of regions", each(sides, offset_of!(Side, regions) & !7, 8)),
        ("the engines' ready lists", each(sides, ready_lists, ready_list)),
        ("the completion queues' ready lists", each(sides, ready_lists + ready_list, ready_list)),
        ("everything of the sides", each(sides, 0, ready_lists + 4 * ready_list)),
    ]
}

fn attributes() -> ViAttributes {
    ViAttributes {
        reliability: Reliability::RELIABLE_DELIVERY,
        max_transfer_size: 512 << 10,
        ptag: None,
        enable_rdma_write: true,
        enable_rdma_read: true,
    }
}

/// Returns two connected ends. The server's is attached to a completion queue.
fn pair<'n>(cx: &Context<'n, ShmNic>, cq: &ShmCq) -> Option<[End<'n, ShmNic>; 2]> {
    let make = |attach| {
        let end = End::attached(cx, 2 << 20, attributes(), attach);
        for i in 0..80 {
            end.post_recv(i, 0, 32 << 10);
        }
        end
    };
    let server = make(Attach { send: None, recv: Some(cq), context: 1 });
    let client = make(Attach::default());
    let connected = thread::scope(|s| {
        let accepted = s.spawn(|| {
            let connection = cx.nic.connect_wait(&cx.server, Some(Duration::from_secs(1)));
            connection.is_ok_and(|connection| connection.accept(&server.vi).is_ok())
        });
        client.request(cx).is_ok() && accepted.join().unwrap()
    });
    connected.then_some([server, client])
}

#[track_caller]
fn soon<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = call();
    assert!(begin.elapsed() < LONG + PATIENCE, "{what} took {:?}", begin.elapsed());
    result
}

/// Returns the address of the segment that holds the first message of the pair. The segment stays mapped as long as the
/// pair lives.
fn segment_of(server: &End<'_, ShmNic>, client: &End<'_, ShmNic>, mark: u64) -> Option<usize> {
    let mark = [mark.to_le_bytes(); 5].concat();
    client.write(OWN, &mark);
    client.vi.post_send(client.descriptor(600, &[client.data(OWN, mark.len())], None)).ok()?;
    let sent = client.vi.send_wait(Some(LONG)).ok()?;
    let received = server.vi.recv_wait(Some(LONG)).ok()?;
    sent.result().and(received.result()).ok()?;
    let (segment, _fd) = Segment::create().unwrap();
    let base = std::ptr::from_ref(segment.side(0)) as usize & !0xfff;
    let rings = std::ptr::from_ref(segment.slots(0, 0)) as usize - base;
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    segments().into_iter().find(|segment| {
        // Other segments may be unmapped at any time.
        let mut bytes = vec![0; 64 << 10];
        memory.read_exact_at(&mut bytes, (segment + rings) as u64).is_ok()
            && bytes.windows(mark.len()).any(|window| window == mark)
    })
}

/// Sends, writes and reads until the connection breaks or `stop` is set.
fn initiate(end: &End<'_, ShmNic>, far: &End<'_, ShmNic>, stop: &AtomicBool, seed: u64) {
    let mut random = Random(seed);
    let short = Some(Duration::from_millis(2));
    let mut i = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..random.below(5) {
            i += 1;
            let len = random.of(&[64, 3000, 200_000]);
            let data = [end.data(OWN, len)];
            let posted = match random.below(3) {
                0 => end.vi.post_send(end.descriptor(500 + i % 100, &[end.data(OWN, 3000)], None)),
                operation => {
                    let all = [Control::OP_RDMAWRITE, Control::OP_RDMAREAD];
                    let to = far.target().at(TARGET);
                    end.vi.post_send(end.rdma(500 + i % 100, all[operation - 1], to, &data, None))
                }
            };
            if posted.is_err() {
                return;
            }
        }
        while let Ok(done) = soon("a wait", || end.vi.send_wait(short)) {
            if done.result().is_err() {
                return;
            }
        }
    }
}

/// Waits on the completion queue and receives.
fn receive(end: &End<'_, ShmNic>, cq: &ShmCq, stop: &AtomicBool) {
    let short = Some(Duration::from_millis(2));
    while !stop.load(Ordering::Relaxed) {
        if soon("a wait", || cq.wait(short)).is_ok() {
            let Some(done) = end.vi.recv_done().completion() else { continue };
            if done.result().is_err() {
                return;
            }
            end.vi.post_recv(done.descriptor).unwrap();
        }
    }
}

/// Registers memory and revokes it, again and again.
fn revoke(nic: &ShmNic, stop: &AtomicBool) {
    let memory = Memory::zeroed(8192);
    let open = MemAttributes { ptag: None, enable_rdma_write: true, enable_rdma_read: true };
    while !stop.load(Ordering::Relaxed) {
        let handle = nic.register_mem(&memory, open).unwrap();
        soon("changing attributes", || nic.set_mem_attributes(handle, open).unwrap());
        soon("deregistering", || nic.deregister_mem(handle).unwrap());
        thread::sleep(Duration::from_micros(300));
    }
}

fn rounds(count: usize, scribbles: usize) {
    let mut random = Random::seeded(0x5eed);
    let name = format!("hostile-rdma-{}", std::process::id());
    let bystander = crate::common::start("hostile_rdma::bystander", &[("VIA_NIC", &name)]);
    let nic = ShmNic::open(&name).unwrap();
    let cx = Context { nic: &nic, server: nic.address(b"bystander") };
    let other = End::new(&cx);
    other.post_recv(0, 0, 1000);
    other.request(&cx).unwrap();
    // Memory that no peer may access.
    let closed = Memory::zeroed(64 << 10);
    nic.register_mem(&closed, MemAttributes::default()).unwrap();
    let mut connected = 0;
    let parts = parts();
    for round in 0..count {
        if round % 100 == 99 {
            println!("round {round}");
        }
        let discriminator = format!("round {round}");
        let cx = Context { nic: &nic, server: nic.address(discriminator.as_bytes()) };
        let cq = nic.create_cq(10_000, 0).unwrap();
        // Enough VIs for the queue to use the bits that senders set.
        let idle: Vec<_> = (0..20)
            .map(|_| {
                let attach = Attach { send: None, recv: Some(&cq), context: 2 };
                nic.create_vi_with(attributes(), attach).unwrap()
            })
            .collect();
        let Some([server, client]) = pair(&cx, &cq) else { continue };
        let Some(segment) = segment_of(&server, &client, random.next()) else { continue };
        connected += 1;
        let (what, words) = &parts[round % parts.len()];
        let [stop, over] = [(); 2].map(|()| AtomicBool::new(false));
        let begin = Instant::now();
        thread::scope(|s| {
            s.spawn(|| {
                for i in 0..scribbles {
                    let (at, len) = random.of(words);
                    let at = segment + at + random.below(len / 8) * 8;
                    scribble(at, evil(&mut random, at));
                    if i % 50 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            s.spawn(|| revoke(&nic, &over));
            s.spawn(|| receive(&server, &cq, &stop));
            s.spawn(|| initiate(&server, &client, &stop, 1));
            initiate(&client, &server, &stop, 2);
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            // The last values stay, because no thread overwrites words any more.
            thread::sleep(Duration::from_millis(2));
            over.store(true, Ordering::Relaxed);
        });
        assert!(begin.elapsed() < 3 * LONG + PATIENCE, "{what}: {:?}", begin.elapsed());
        for end in [&server, &client] {
            soon(what, || end.vi.disconnect());
            assert_eq!(end.vi.state(), ViState::Idle);
            while end.vi.recv_done().completion().is_some() {}
            while end.vi.send_done().completion().is_some() {}
            end.nothing_posted();
            soon(what, || nic.deregister_mem(end.handle).unwrap());
        }
        drop((idle, server, client, cq));
        let mut bytes = vec![1; closed.len()];
        assert!(closed.read(0, &mut bytes) && bytes.iter().all(|&byte| byte == 0), "{what}");
        other.send(1, 0, round % 1000);
        assert_eq!(other.received().result(), Ok(round as u32 % 1000));
        other.post_recv(0, 0, 1000);
    }
    assert!(connected > count / 4, "only {connected} connections came about");
    drop(other);
    crate::common::finish(bystander).unwrap();
}

#[test]
fn no_overwritten_word_blocks_an_end() {
    rounds(32, 6000);
}

#[test]
#[ignore = "soak: nonsense for minutes"]
fn no_overwritten_word_blocks_an_end_soak() {
    rounds(1000, 10_000);
}

/// Echoes messages, in a child process. Returns at once if its environment variable is not set.
#[test]
fn bystander() {
    let Ok(name) = std::env::var("VIA_NIC") else { return };
    let nic = ShmNic::open(&name).unwrap();
    let end = End::new(&Context { nic: &nic, server: nic.address(b"bystander") });
    end.post_recv(0, 0, 1000);
    end.accept(&Context { nic: &nic, server: nic.address(b"bystander") });
    loop {
        let done = end.vi.recv_wait(Some(Duration::from_secs(60))).unwrap();
        let Ok(len) = done.result() else { break };
        end.vi.post_recv(done.descriptor).unwrap();
        end.send(1, 0, len as usize);
    }
}
