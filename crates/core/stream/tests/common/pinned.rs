//! A simulated NIC that really locks pages, and test memory to send from.
//!
//! The NIC holds pages in a pipe, into which it splices them without a copy. Unmapped or replaced pages stay in the
//! pipe unchanged, as with a NIC that reads them by DMA.

use super::LONG;
use core::ops::Range;
use sovia_stream::{Caching, Configuration, Stack, Stream, Unconnected};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use via::Vi;
use via_sim::{Config, Network, Pinned, Pinner, Registering, SimNic};

pub(crate) const PAGE: usize = 4096;
const PIPE_BYTES: i32 = 1 << 20;

/// Locks the pages at these addresses.
struct Pipes(Range<usize>);

struct Pages {
    reads: File,
    writes: File,
    len: usize,
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for two descriptors, and no other code owns them.
    let ends = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        ends.map(|end| File::from_raw_fd(end))
    };
    // SAFETY: the call takes only numbers.
    let set = unsafe { libc::fcntl(ends[1].as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    assert_eq!(set, PIPE_BYTES);
    let [reads, writes] = ends;
    (reads, writes)
}

impl Pinner for Pipes {
    fn pin(&self, address: u64, len: usize) -> Option<Box<dyn Pinned>> {
        let (begin, end) = (address as usize, address as usize + len);
        if begin < self.0.start || self.0.end < end {
            return None;
        }
        let (reads, writes) = pipe();
        let mut at = begin;
        while at < end {
            let piece = libc::iovec { iov_base: at as *mut _, iov_len: end - at };
            // SAFETY: the caller registers the memory, so it is mapped. The call only adds references to its pages.
            let held = unsafe { libc::vmsplice(writes.as_raw_fd(), &raw const piece, 1, 0) };
            assert!(held > 0, "{}", std::io::Error::last_os_error());
            at += held as usize;
        }
        Some(Box::new(Pages { reads, writes, len }))
    }
}

impl Pinned for Pages {
    fn read(&self, at: usize, out: &mut [u8]) {
        let (mut copy, to) = pipe();
        // SAFETY: the call takes only numbers, and leaves the pages in their pipe.
        let teed = unsafe { libc::tee(self.reads.as_raw_fd(), to.as_raw_fd(), self.len, 0) };
        assert_eq!(teed, self.len as isize, "all of it, and {:?} holds it", self.writes);
        let mut all = vec![0; self.len];
        copy.read_exact(&mut all).unwrap();
        out.copy_from_slice(&all[at..at + out.len()]);
    }
}

/// Returns addresses for one test only, far from the addresses that the kernel chooses for other mappings. So no other
/// code gets memory that the test unmaps.
pub(crate) fn addresses(pages: usize) -> Range<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0x3000_0000_0000);
    let start = NEXT.fetch_add(1 << 30, Ordering::Relaxed);
    start..start + pages * PAGE
}

/// Maps zeroed memory at a free range.
pub(crate) fn map(at: &Range<usize>) {
    map_with(at, libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE);
}

/// Like [`map`], but returns false if the range is not free.
pub(crate) fn map_if_free(at: &Range<usize>) -> bool {
    mapped(at, libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE)
}

/// Maps zeroed memory at a range.
pub(crate) fn map_with(at: &Range<usize>, flags: i32) {
    assert!(mapped(at, flags), "{}", std::io::Error::last_os_error());
}

fn mapped(at: &Range<usize>, flags: i32) -> bool {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (start, flags) = (at.start as *mut _, flags | libc::MAP_ANONYMOUS);
    // SAFETY: the addresses belong to the test.
    unsafe { libc::mmap(start, at.len(), access, flags, -1, 0) == start }
}

pub(crate) fn unmap(at: &Range<usize>) {
    // SAFETY: the addresses belong to the test, and no slice of them exists.
    assert_eq!(unsafe { libc::munmap(at.start as *mut _, at.len()) }, 0);
}

/// Fills the range with bytes that depend on `what`.
pub(crate) fn fill(at: &Range<usize>, what: u8) {
    // SAFETY: the addresses belong to the test, and are mapped.
    let bytes = unsafe { core::slice::from_raw_parts_mut(at.start as *mut u8, at.len()) };
    bytes.copy_from_slice(&expected(at.len(), what));
}

pub(crate) fn expected(len: usize, what: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7) as u8 ^ what).collect()
}

/// Two ends of a stream over NICs that lock pages, in one thread that advances the time.
pub(crate) struct Pair {
    pub(crate) network: Network,
    pub(crate) stack: Stack<SimNic>,
    pub(crate) stream: Stream<SimNic>,
    peer: Stream<SimNic>,
    _other: Stack<SimNic>,
}

impl Pair {
    /// Creates a pair that sends from these addresses by registering them, which costs time.
    pub(crate) fn new(pinned: &Range<usize>) -> Pair {
        Pair::with(Config::default().registering(Registering::PUBLISHED), pinned)
    }

    pub(crate) fn with(config: Config, pinned: &Range<usize>) -> Pair {
        let network = Network::new(1, config);
        let stacks = ["a", "b"].map(|name| Stack::stepped(network.nic(name)).unwrap());
        let [a, b] = stacks.each_ref().map(|stack| stack.nic().address(b"end"));
        let configuration: Configuration = "SOVIA_DACKS,reg".parse().unwrap();
        let ends = stacks.each_ref().map(|stack| stack.unconnected(&configuration).unwrap());
        ends[0].vi().connect_peer_request(&a, &b, Some(LONG)).unwrap();
        ends[1].vi().connect_peer_request(&b, &a, Some(LONG)).unwrap();
        for end in &ends {
            end.vi().connect_peer_wait().unwrap();
        }
        stacks[0].nic().set_pinner(Arc::new(Pipes(pinned.clone())));
        let [stream, peer] = ends.map(Unconnected::connected);
        let [stack, other] = stacks;
        Pair { network, stack, stream, peer, _other: other }
    }

    /// Enables [`Caching::Noticed`]. Returns false if the kernel does not support it.
    pub(crate) fn noticed(&self) -> bool {
        let noticed = self.stack.set_caching(Caching::Noticed);
        if let Err(error) = noticed {
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            println!("SKIPPED: {test}: {error}");
        }
        noticed.is_ok()
    }

    /// Sends the bytes at these addresses, and returns the bytes that arrive.
    pub(crate) fn send(&self, at: &Range<usize>) -> Vec<u8> {
        // SAFETY: the addresses belong to the test and are mapped, and no thread writes to them meanwhile.
        let bytes = unsafe { core::slice::from_raw_parts(at.start as *const u8, at.len()) };
        assert_eq!(self.stream.write(bytes), Ok(bytes.len()));
        let mut out = vec![0; bytes.len()];
        let mut got = 0;
        while got < out.len() {
            got += self.peer.read_within(&mut out[got..], LONG).unwrap();
        }
        out
    }

    /// Fills the range, and checks that these bytes arrive.
    #[track_caller]
    pub(crate) fn says(&self, at: &Range<usize>, what: u8) {
        fill(at, what);
        assert!(self.send(at) == expected(at.len(), what), "other bytes arrive than were written");
    }
}
