//! Descriptors with random contents, which change while they are posted. Nothing may crash or hang, and no byte outside
//! registered memory may change. Each descriptor completes once, in order.
#![cfg(not(loom))]

use crate::common::Random;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use via::error::PostError;
use via::queue::{Completion, Done};
use via::{Connection, Control, DataSegment, DescriptorAddress, MemAttributes, MemHandle, Memory};
use via::{Nic, Reliability, RemoteSegment, Status, Vi, ViAttributes, ViState};
use via_conformance::SOON;
use via_shm::{ShmNic, ShmVi};

/// Pages of an end. The outer pages are not accessible. Of the inner pages some bytes are registered, and the others
/// are canaries.
const PAGE: usize = 4096;
const PAGES: usize = 66;
const CANARY: u64 = 0x5afe_5afe_5afe_5afe;
/// Offset and length of each registered region. The peer may write the first, read the second, do both in the third,
/// and neither in the fourth.
const REGIONS: [(usize, usize); 4] =
    [(0x1010, 0x2fe8), (0x5100, 0x9008), (0xf000, 0x1_0000), (0x2_1008, 0x1_0ff0)];
const DESCRIPTORS: usize = 256;
const DESCRIPTOR: usize = 384;

struct Pages(NonNull<u8>);

// SAFETY: an address range. Threads access it only through atomics, and the NIC through copies.
unsafe impl Sync for Pages {}

impl Pages {
    fn new() -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses changes no existing mapping. `mprotect` stays
        // within it.
        let base = unsafe {
            let base = libc::mmap(core::ptr::null_mut(), PAGES * PAGE, 0, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let inner = base.cast::<u8>().add(PAGE).cast();
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(inner, (PAGES - 2) * PAGE, access), 0);
            base
        };
        let pages = Pages(NonNull::new(base.cast()).unwrap());
        pages.canaries().for_each(|at| pages.word(at).store(CANARY, Ordering::Relaxed));
        pages
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!((PAGE..(PAGES - 1) * PAGE).contains(&at));
        // SAFETY: the assertion keeps the word within the inner pages, which are mapped. Callers pass multiples of 8.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(at).cast()) }
    }

    /// Returns the offsets of the words that are not registered at all.
    fn canaries(&self) -> impl Iterator<Item = usize> {
        let registered = |at| REGIONS.iter().any(|&(from, len)| at + 8 > from && at < from + len);
        (PAGE..(PAGES - 1) * PAGE).step_by(8).filter(move |&at| !registered(at))
    }

    fn check(&self) {
        for at in self.canaries() {
            assert_eq!(self.word(at).load(Ordering::Relaxed), CANARY, "byte {at:#x} was written");
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and its memory has been deregistered.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGES * PAGE) };
    }
}

/// An end with its memory.
struct End<'p> {
    vi: ShmVi,
    pages: &'p Pages,
    regions: Vec<MemHandle>,
    /// Memory of the descriptors, and its handle.
    memory: Memory,
    handle: MemHandle,
}

impl<'p> End<'p> {
    fn new(nic: &ShmNic, pages: &'p Pages, reliability: Reliability) -> End<'p> {
        let readable = reliability != Reliability::UNRELIABLE;
        let attributes = ViAttributes {
            reliability,
            max_transfer_size: 100_000,
            ptag: None,
            enable_rdma_write: true,
            enable_rdma_read: readable,
        };
        let register = |(i, &(from, len)): (usize, &(usize, usize))| {
            // SAFETY: the pages stay mapped until after the memory is deregistered.
            let memory = unsafe { Memory::from_raw(pages.0.add(from), len) };
            let attributes = MemAttributes {
                ptag: None,
                enable_rdma_write: i == 0 || i == 2,
                enable_rdma_read: i == 1 || i == 2,
            };
            nic.register_mem(&memory, attributes).unwrap()
        };
        let regions = REGIONS.iter().enumerate().map(register).collect();
        let memory = Memory::zeroed(DESCRIPTORS * DESCRIPTOR);
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        let vi = nic.create_vi(attributes).unwrap();
        End { vi, pages, regions, memory, handle }
    }

    /// Returns a range of the end's memory. With `evil` it is probably invalid.
    fn data(&self, random: &mut Random, evil: bool) -> DataSegment {
        let i = random.below(REGIONS.len());
        let (from, len) = REGIONS[i];
        let base = self.pages.0.as_ptr() as u64;
        let handle = self.regions[i].raw();
        let at = random.below(len);
        let most = [8, 200, 3000, len][random.below(4)].min(len - at);
        let good = DataSegment {
            address: base + (from + at) as u64,
            handle,
            length: random.below(most + 1) as u32,
        };
        if !evil {
            return good;
        }
        match random.below(7) {
            0 => DataSegment { length: (len - at + 1) as u32, ..good },
            1 => DataSegment { address: base + random.below(PAGES * PAGE) as u64, ..good },
            2 => DataSegment { address: random.next(), ..good },
            3 => DataSegment { handle: random.next() as u32, ..good },
            4 => DataSegment { length: random.next() as u32, ..good },
            5 => DataSegment { address: good.address.wrapping_neg(), length: u32::MAX, ..good },
            _ => DataSegment { address: base + from as u64 - 1, ..good },
        }
    }

    /// Prepares a descriptor with random contents.
    fn prepare(
        &self,
        i: usize,
        far: &End<'_>,
        random: &mut Random,
        receive: bool,
    ) -> DescriptorAddress {
        // An invalid descriptor ends a reliable connection, so these are rarer there.
        let unreliable = self.vi.attributes().reliability == Reliability::UNRELIABLE;
        let evil = random.below(if unreliable { 20 } else { 80 }) == 0;
        let descriptor = self.memory.descriptor(i * DESCRIPTOR).unwrap();
        let count = if receive { 1 } else { random.of(&[0, 1, 1, 1, 2, 5, 18]) };
        let mut data: Vec<_> = (0..count)
            .map(|_| {
                let evil = evil && random.below(3) == 0;
                self.data(random, evil)
            })
            .collect();
        if receive && !evil {
            // Enough room for any message.
            let (from, len) = REGIONS[3];
            let address = self.pages.0.as_ptr() as u64 + from as u64;
            data = vec![DataSegment { address, handle: self.regions[3].raw(), length: len as u32 }];
        }
        let mut total = 0;
        if !evil && !receive {
            // Keep only what fits into the other end's receives.
            data.retain(|segment| {
                let fits = total + segment.length < 60_000;
                total += if fits { segment.length } else { 0 };
                fits
            });
        }
        let immediate = (random.below(4) == 0).then(|| random.next() as u32);
        let may_read = evil || self.vi.attributes().enable_rdma_read;
        let operation = random.of(&[
            Control::OP_SENDRECV,
            Control::OP_SENDRECV,
            Control::OP_RDMAWRITE,
            if may_read { Control::OP_RDMAREAD } else { Control::OP_RDMAWRITE },
        ]);
        if receive || operation == Control::OP_SENDRECV {
            descriptor.prepare(&data, immediate).unwrap();
        } else {
            let mut to = far.data(random, true);
            if !evil {
                // The third region allows reads and writes.
                let at = REGIONS[2].0 + random.below(REGIONS[2].1 - total as usize);
                to.address = far.pages.0.as_ptr() as u64 + at as u64;
                to.handle = far.regions[2].raw();
            }
            let remote = RemoteSegment { address: to.address, handle: to.handle };
            let read = operation == Control::OP_RDMAREAD;
            descriptor.prepare_rdma(operation, remote, &data, immediate.filter(|_| !read)).unwrap();
        }
        if evil && random.below(3) == 0 {
            descriptor.set_control(Control::from_bits_retain(random.next() as u16));
        }
        if evil && random.below(3) == 0 {
            descriptor.set_seg_count(random.next() as u16);
        }
        DescriptorAddress { address: self.memory.address(i * DESCRIPTOR), handle: self.handle }
    }

    /// Overwrites a word of a random descriptor, posted or not.
    fn scribble(&self, random: &mut Random, all: bool) {
        let at = random.below(DESCRIPTORS) * DESCRIPTOR + 8 * random.below(8);
        let at = self.memory.range(self.memory.address(at), 8).unwrap();
        // SAFETY: an aligned word of the memory. Only references to atomics into this memory exist.
        let word = unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) };
        let old = word.load(Ordering::Relaxed);
        let new = match random.below(4) {
            0 if all => random.next(),
            1 if all => old ^ 1 << random.below(64),
            2 => old & !0xffff_ffff | u64::from(self.data(random, false).length),
            _ => self.data(random, false).address,
        };
        word.store(new, Ordering::Relaxed);
    }
}

/// The posted descriptors, in order, and the number of successful operations with bytes, by kind.
#[derive(Default)]
struct Posted(VecDeque<DescriptorAddress>, [usize; 4]);

impl Posted {
    fn post(
        &mut self,
        at: DescriptorAddress,
        post: impl FnOnce(DescriptorAddress) -> Result<(), PostError>,
    ) {
        match post(at) {
            Ok(()) => self.0.push_back(at),
            Err(PostError::State(_) | PostError::QueueFull) => {}
            Err(PostError::Descriptor) => panic!("the descriptor itself is a good one"),
        }
    }

    fn take(&mut self, done: &Completion) {
        assert_eq!(self.0.pop_front(), Some(done.descriptor), "out of turn");
        if done.result().is_ok_and(|len| len > 0) {
            let operations = [Status::OP_RDMA_READ, Status::OP_RDMA_WRITE, Status::OP_RECEIVE];
            let place =
                operations.iter().position(|&operation| done.status & Status::OP_MASK == operation);
            self.1[place.unwrap_or(3)] += 1;
        }
    }

    fn take_all(&mut self, mut take: impl FnMut() -> Done) {
        while let Done::Completion(done) = take() {
            self.take(&done);
        }
    }
}

/// Runs one end's program until `until`, or for a random time after the connection has broken.
fn play(here: &End<'_>, there: &End<'_>, seed: u64, until: Instant, posted: &mut [Posted; 2]) {
    let mut random = Random(seed);
    let [sends, receives] = posted;
    let mut i = 0;
    while Instant::now() < until {
        for _ in 0..random.below(6) {
            i += 1;
            if receives.0.len() < 60 {
                let at = here.prepare(i % (DESCRIPTORS / 2), there, &mut random, true);
                receives.post(at, |at| here.vi.post_recv(at));
            }
            if sends.0.len() < 30 {
                let place = DESCRIPTORS / 2 + i % (DESCRIPTORS / 2);
                let at = here.prepare(place, there, &mut random, false);
                sends.post(at, |at| here.vi.post_send(at));
            }
        }
        match random.below(4) {
            0 => {
                if let Ok(done) = here.vi.send_wait(Some(Duration::from_micros(100))) {
                    sends.take(&done);
                }
            }
            1 => {
                if let Ok(done) = here.vi.recv_wait(Some(Duration::from_micros(100))) {
                    receives.take(&done);
                }
            }
            _ => {
                sends.take_all(|| here.vi.send_done());
                receives.take_all(|| here.vi.recv_done());
            }
        }
        if here.vi.state() != ViState::Connected && random.below(8) == 0 {
            return;
        }
    }
}

fn round(nic: &ShmNic, random: &mut Random, level: Reliability, scribbles: bool) -> [usize; 4] {
    let pages = [Pages::new(), Pages::new()];
    let [a, b] = [0, 1].map(|i| End::new(nic, &pages[i], level));
    let mut posted = [0, 1].map(|_| [Posted::default(), Posted::default()]);
    for (end, posted) in [&a, &b].into_iter().zip(&mut posted) {
        for i in 0..50 {
            let at = end.prepare(i, end, &mut Random(7 + i as u64), true);
            posted[1].post(at, |at| end.vi.post_recv(at));
        }
    }
    let place = nic.address(b"fuzz");
    thread::scope(|s| {
        s.spawn(|| nic.connect_wait(&place, SOON).unwrap().accept(&a.vi).unwrap());
        let begin = Instant::now();
        while b.vi.connect_request(&nic.address(b""), &place, SOON).is_err() {
            assert!(begin.elapsed() < crate::common::PATIENCE);
        }
    });
    let begin = Instant::now();
    let until = begin + Duration::from_millis(40);
    let stop = AtomicBool::new(false);
    let [seed_a, seed_b, mut third] = [0; 3].map(|_| Random(random.next() | 1));
    let [posted_a, posted_b] = &mut posted;
    thread::scope(|s| {
        s.spawn(|| {
            while scribbles && !stop.load(Ordering::Relaxed) {
                let evil = third.below(50) == 0;
                a.scribble(&mut third, evil);
                b.scribble(&mut third, evil);
                thread::sleep(Duration::from_micros(20));
            }
        });
        let other = s.spawn(|| play(&b, &a, seed_b.0, until, posted_b));
        play(&a, &b, seed_a.0, until, posted_a);
        other.join().unwrap();
        stop.store(true, Ordering::Relaxed);
    });
    let mut well = [0; 4];
    for (end, [sends, receives]) in [(&a, posted_a), (&b, posted_b)] {
        end.vi.disconnect();
        sends.take_all(|| end.vi.send_done());
        receives.take_all(|| end.vi.recv_done());
        assert!(sends.0.is_empty() && receives.0.is_empty(), "something is never done");
        assert_eq!(end.vi.queues_empty(), (true, true));
        let all = sends.1.iter().zip(receives.1);
        well.iter_mut().zip(all).for_each(|(well, (a, b))| *well += a + b);
    }
    for end in [&a, &b] {
        end.regions.iter().for_each(|&region| nic.deregister_mem(region).unwrap());
        nic.deregister_mem(end.handle).unwrap();
        end.pages.check();
    }
    assert!(begin.elapsed() < crate::common::PATIENCE, "{level:?}: {:?}", begin.elapsed());
    well
}

fn rounds(count: usize) {
    let mut random = Random::seeded(0xdead_beef);
    let nic = ShmNic::open(&format!("fuzz-{}", std::process::id())).unwrap();
    let levels =
        [Reliability::UNRELIABLE, Reliability::RELIABLE_DELIVERY, Reliability::RELIABLE_RECEPTION];
    let mut well = [0; 4];
    // On a slow machine, further rounds make up for what a round has had no time for.
    let mut i = 0;
    while i < count || i < 20 * count && well.iter().any(|&well| well <= count) {
        let more = round(&nic, &mut random, levels[i % 3], i / 3 % 2 == 1);
        well.iter_mut().zip(more).for_each(|(well, more)| *well += more);
        i += 1;
    }
    println!("reads, writes, receives, sends that went well: {well:?}");
    assert!(well.iter().all(|&well| well > count), "it hardly did anything: {well:?}");
}

#[test]
fn any_descriptors_are_done_once_and_touch_nothing_else() {
    rounds(60);
}

#[test]
#[ignore = "soak: any descriptors for minutes"]
fn any_descriptors_for_long() {
    rounds(3000);
}
