//! Memory is revoked from a peer while the peer's RDMAs are running. After the call has returned, no byte is written or
//! read. The call returns whatever the peer does.
#![cfg(not(loom))]

use crate::common::start;
use core::ptr::NonNull;
use std::env;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};
use via::{Control, MemAttributes, MemHandle, Memory, Nic, Reliability, Vi, ViAttributes};
use via_conformance::{Context, End, Target};
use via_shm::ShmNic;

const LEN: usize = 1 << 20;
/// Time in which the call must return, even on a busy machine.
const SOON: Duration = Duration::from_secs(120);

/// Each operation, with a length for direct access and a length for staging.
const KINDS: [(Control, usize); 4] = [
    (Control::OP_RDMAWRITE, 4000),
    (Control::OP_RDMAWRITE, LEN),
    (Control::OP_RDMAREAD, 4000),
    (Control::OP_RDMAREAD, LEN),
];

/// Pages whose protection the test removes after the call, so that a late access fails.
struct Pages(NonNull<u8>);

impl Pages {
    fn new() -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses changes no existing mapping.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), LEN, protection, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED);
        Pages(NonNull::new(base.cast()).unwrap())
    }

    fn allow(&self, protection: i32) {
        // SAFETY: this value owns the mapping, and no reference into it exists.
        assert_eq!(unsafe { libc::mprotect(self.0.as_ptr().cast(), LEN, protection) }, 0);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        // SAFETY: the mapping has `LEN` bytes and is readable. A late write during the copy is the fault that the test
        // looks for.
        unsafe { core::ptr::copy_nonoverlapping(self.0.as_ptr(), bytes.as_mut_ptr(), LEN) };
        bytes
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and the memory has been deregistered.
        unsafe { libc::munmap(self.0.as_ptr().cast(), LEN) };
    }
}

fn attributes() -> ViAttributes {
    ViAttributes {
        reliability: Reliability::RELIABLE_DELIVERY,
        max_transfer_size: LEN as u32,
        ptag: None,
        enable_rdma_write: true,
        enable_rdma_read: true,
    }
}

const OPEN: MemAttributes =
    MemAttributes { ptag: None, enable_rdma_write: true, enable_rdma_read: true };

/// Runs the process that accesses the test's memory again and again. Returns at once if its environment variables are
/// not set.
#[test]
fn initiator() {
    let (Ok(kind), Ok(name)) = (env::var("VIA_KIND"), env::var("VIA_NIC")) else { return };
    let (operation, len) = KINDS[kind.parse::<usize>().unwrap()];
    let nic = ShmNic::open(&name).unwrap();
    loop {
        let cx = Context { nic: &nic, server: nic.address(b"revoking") };
        let end = End::with(&cx, 2 * LEN, attributes());
        end.post_recv(0, 0, 100);
        if end.request(&cx).is_err() {
            return;
        }
        if end.received().result().is_err() {
            continue;
        }
        let words: Vec<u64> = end
            .bytes(0, 16)
            .chunks_exact(8)
            .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
            .collect();
        let to = Target::heard(&words).at(0);
        // After this message the other process revokes its memory.
        for i in 1.. {
            end.fill(LEN, 64, i);
            let data = [end.data(LEN, len)];
            end.vi.post_send(end.rdma(1 + i % 8, operation, to, &data, None)).unwrap();
            if end.sent().result().is_err() {
                break;
            }
            if i == 3 {
                end.post_send(20, 0, 0);
                if end.sent().result().is_err() {
                    break;
                }
            }
        }
    }
}

/// Connects to a peer whose RDMAs into `pages` are running.
fn swing<'n>(nic: &'n ShmNic, pages: &Pages) -> (End<'n, ShmNic>, MemHandle) {
    let cx = Context { nic, server: nic.address(b"revoking") };
    // SAFETY: the pages stay mapped until after the memory is deregistered.
    let memory = unsafe { Memory::from_raw(pages.0, LEN) };
    let handle = nic.register_mem(&memory, OPEN).unwrap();
    let end = End::with(&cx, 4096, attributes());
    end.post_recv(0, 0, 100);
    end.accept(&cx);
    let words = Target { address: memory.address(0), handle: handle.raw() }.words();
    let words: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    end.write(200, &words);
    end.send(1, 200, 16);
    assert_eq!(end.received().result(), Ok(0));
    (end, handle)
}

fn peer(nic: &ShmNic, kind: usize) -> Child {
    start(
        "revoking::initiator",
        &[("VIA_KIND", &kind.to_string()), ("VIA_NIC", &nic.attributes().name)],
    )
}

fn taken_away(rounds: u64) {
    for kind in 0..KINDS.len() {
        let nic = ShmNic::open(&format!("revoking-{kind}-{}", std::process::id())).unwrap();
        let mut child = peer(&nic, kind);
        for round in 0..rounds {
            let pages = Pages::new();
            let (end, handle) = swing(&nic, &pages);
            thread::sleep(Duration::from_micros(round * 137 % 1000));
            let begin = Instant::now();
            if round % 2 == 0 {
                nic.deregister_mem(handle).unwrap();
            } else {
                nic.set_mem_attributes(handle, MemAttributes::default()).unwrap();
            }
            assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
            let then = pages.bytes();
            pages.allow(libc::PROT_NONE);
            thread::sleep(Duration::from_millis(2));
            pages.allow(libc::PROT_READ);
            assert!(then == pages.bytes(), "a byte was written after all");
            if round % 2 != 0 {
                nic.deregister_mem(handle).unwrap();
            }
            drop(end);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn what_is_taken_away_is_touched_no_more() {
    taken_away(12);
}

/// Runs the same test with all RDMAs staged.
#[test]
fn what_is_taken_away_is_touched_no_more_without_direct_access() {
    let child =
        start("revoking::without_direct_access", &[("VIA_ALONE", ""), ("SOVIA_DIRECT", "off")]);
    crate::common::finish(child).unwrap();
}

#[test]
fn without_direct_access() {
    if env::var_os("VIA_ALONE").is_some() {
        taken_away(6);
    }
}

/// After a disconnect the peer has no access, even without deregistering.
#[test]
fn after_a_disconnect_nothing_is_touched() {
    for kind in 0..KINDS.len() {
        let nic = ShmNic::open(&format!("revoking-d{kind}-{}", std::process::id())).unwrap();
        let mut child = peer(&nic, kind);
        for round in 0..12 {
            let pages = Pages::new();
            let (end, handle) = swing(&nic, &pages);
            thread::sleep(Duration::from_micros(round * 137 % 1000));
            let begin = Instant::now();
            end.vi.disconnect();
            assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
            let then = pages.bytes();
            thread::sleep(Duration::from_millis(1));
            assert!(then == pages.bytes(), "a byte was written after all");
            nic.deregister_mem(handle).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn deregister_returns_though_the_initiator_dies() {
    for (kind, round) in (0..KINDS.len()).flat_map(|kind| (0..4).map(move |round| (kind, round))) {
        let nic = ShmNic::open(&format!("revoking-k{kind}-{}", std::process::id())).unwrap();
        let mut child = peer(&nic, kind);
        let pages = Pages::new();
        let (end, handle) = swing(&nic, &pages);
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_micros(round * 50));
                child.kill().unwrap();
            });
            thread::sleep(Duration::from_micros(100));
            let begin = Instant::now();
            nic.deregister_mem(handle).unwrap();
            assert!(begin.elapsed() < SOON, "it took {:?}", begin.elapsed());
        });
        drop(end);
        child.wait().unwrap();
    }
}

/// The call must wait for a peer that is stopped during an access, because the access would continue.
#[test]
fn a_stopped_initiator_does_not_go_on_afterwards() {
    let nic = ShmNic::open(&format!("revoking-s-{}", std::process::id())).unwrap();
    let mut child = peer(&nic, 0);
    for round in 0..10 {
        let pages = Pages::new();
        let (_end, handle) = swing(&nic, &pages);
        let signal = |signal| {
            // SAFETY: sends a signal to a child that has not been waited for, so the process id is the child's.
            assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        };
        thread::sleep(Duration::from_micros(round * 31));
        signal(libc::SIGSTOP);
        thread::scope(|s| {
            s.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                signal(libc::SIGCONT);
            });
            nic.deregister_mem(handle).unwrap();
            let then = pages.bytes();
            thread::sleep(Duration::from_millis(30));
            assert!(then == pages.bytes(), "a byte was written after all");
        });
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[ignore = "soak: thousands of regions taken away"]
fn what_is_taken_away_is_touched_no_more_for_long() {
    taken_away(2000);
}
