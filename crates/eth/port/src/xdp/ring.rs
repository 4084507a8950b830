//! The memory that `AF_XDP` sockets share with this process: chunks for frames, and rings in which their addresses go to and
//! fro.
//!
//! A chunk is the kernel's or this process's at any time. Here that is a type: code that has a [`Chunk`] may read or write its
//! bytes, and putting it in a ring takes it away. A ring has one producer and one consumer, each with a counter of its own
//! that the other one reads: entries are written before the counter that hands them over is stored (release), and read after it has
//! been loaded (acquire).

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Mapping, Result};

/// Bytes that the kernel leaves free in a chunk before a frame that has come: `XDP_PACKET_HEADROOM`.
pub(super) const HEADROOM: usize = 256;

/// A chunk that is this process's, by the address of its first byte.
#[derive(Debug)]
pub(super) struct Chunk(u64);

/// The chunks, one behind the other. There is one such memory for all sockets of a port, so a [`Chunk`] names its own.
#[derive(Debug)]
pub(super) struct Chunks {
    mapping: Mapping,
    /// Bytes of each, a power of two.
    size: usize,
}

impl Chunks {
    /// So many chunks of that size, a power of two. All of them are this process's.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn make(size: usize, count: usize) -> Result<(Chunks, Vec<Chunk>)> {
        let mapping = Mapping::private(size * count)?;
        // After a fork the kernel would go on with pages that this process has no longer.
        mapping.stays_out_of_copies();
        let all = (0..count).map(|n| Chunk((n * size) as u64)).collect();
        Ok((Chunks { mapping, size }, all))
    }

    /// Has the sockets that share with this one use these chunks.
    ///
    /// # Errors
    /// `ENOBUFS` where more memory would be locked than the process may lock.
    pub(super) fn register(&self, socket: RawFd) -> Result<()> {
        let chunks = libc::xdp_umem_reg {
            addr: self.mapping.base().expose_provenance() as u64,
            len: self.mapping.len() as u64,
            chunk_size: self.size as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // The kernel keeps the pages until the sockets are closed, whatever becomes of the mapping.
        call::setsockopt(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &chunks)
    }

    /// The bytes of a frame that has come.
    pub(super) fn frame<'a>(&'a self, came: &'a Came) -> &'a [u8] {
        // SAFETY: `Received::next` has checked that the range lies in its chunk. The chunk is this process's while `came` is
        // borrowed, and nothing writes to it.
        unsafe { core::slice::from_raw_parts(self.mapping.base().add(came.at), came.len) }
    }

    /// The bytes of a chunk.
    pub(super) fn bytes<'a>(&'a mut self, chunk: &'a mut Chunk) -> &'a mut [u8] {
        // SAFETY: chunks lie in the mapping: `make` and `chunk_at` make no others. This one is this process's, and borrowed
        // for as long as the bytes are.
        unsafe {
            core::slice::from_raw_parts_mut(self.mapping.base().add(chunk.0 as usize), self.size)
        }
    }

    /// The chunk in which an address lies that the kernel has given back.
    fn chunk_at(&self, address: u64) -> Option<Chunk> {
        (address < self.mapping.len() as u64).then(|| Chunk(address & !(self.size as u64 - 1)))
    }
}

/// A frame in a chunk that has just come.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) chunk: Chunk,
    at: usize,
    len: usize,
}

/// A socket's ring, as `XDP_MMAP_OFFSETS` says it lies.
#[derive(Debug)]
struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    count: u32,
    _of: PhantomData<T>,
}

/// What a ring is for: the option that makes it, where it is mapped, and which of four [`Ring`]s it is in
/// `XDP_MMAP_OFFSETS`.
#[derive(Debug, Clone, Copy)]
struct Kind {
    option: i32,
    offset: u64,
    which: usize,
}

impl<T: Copy> Ring<T> {
    /// A ring of `count` entries, a power of two, of a socket that is not bound yet.
    fn make(socket: RawFd, kind: Kind, count: u32) -> Result<Ring<T>> {
        call::setsockopt(socket, libc::SOL_XDP, kind.option, &count)?;
        let all: [u64; 16] = call::getsockopt(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let [producer, consumer, entries, flags] =
            core::array::from_fn(|field| all[4 * kind.which + field] as usize);
        let len = entries + count as usize * size_of::<T>();
        let mapping = Mapping::of_socket(socket, len, kind.offset)?;
        Ok(Ring { mapping, producer, consumer, flags, entries, count, _of: PhantomData })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `at` is one of the three offsets that the kernel has told: an aligned word in the mapping, which both sides use as an atomic one.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(at).cast()) }
    }

    /// The entry with that number, counted on from the ring's first one.
    fn entry(&self, number: u32) -> *mut T {
        let at = self.entries + (number & (self.count - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has `count` entries from `entries` on.
        unsafe { self.mapping.base().add(at).cast() }
    }
}

/// A ring in which this process puts entries. They are the kernel's after [`publish`](Given::publish).
#[derive(Debug)]
struct Given<T> {
    ring: Ring<T>,
    next: u32,
    /// The kernel's counter, when it was last looked at.
    taken: u32,
}

impl<T: Copy> Given<T> {
    /// Returns true if there is room for another entry.
    ///
    /// The kernel stores its counter later than it takes entries. A chunk may have come back to this process while the entry
    /// that named it still occupies the ring.
    fn has_room(&mut self) -> bool {
        self.next.wrapping_sub(self.taken) < self.ring.count || self.left() < self.ring.count
    }

    /// Writes `entry` to the ring; returns false, and writes nothing, if the ring is full.
    fn put(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: `entry` keeps the pointer within the ring, aligned. `has_room` has seen the kernel's counter pass the entry
        // that was there, and the kernel reads the new one after `publish` only.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Entries that the kernel has not taken yet, or has not been told of.
    fn left(&mut self) -> u32 {
        // SYNC: pairs with the kernel's release of entries that it has read: they may be written again.
        self.taken = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    fn publish(&self) {
        // SYNC: the entries, and the bytes of their chunks, are written before the kernel sees them.
        self.ring.word(self.ring.producer).store(self.next, Ordering::Release);
    }

    fn wants_wakeup(&self) -> bool {
        let flags = self.ring.word(self.ring.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring from which this process takes entries. The kernel has their room back after [`publish`](Taken::publish).
#[derive(Debug)]
struct Taken<T> {
    ring: Ring<T>,
    next: u32,
    /// The kernel's counter, when it was last looked at.
    there: u32,
}

impl<T: Copy> Taken<T> {
    fn take(&mut self) -> Option<T> {
        if self.next == self.there {
            // SYNC: pairs with the kernel's release of entries, and of the bytes that they name.
            self.there = self.ring.word(self.ring.producer).load(Ordering::Acquire);
            if self.next == self.there {
                return None;
            }
        }
        // SAFETY: within the ring and aligned; the kernel has written it, and writes it again after `publish` only.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    fn publish(&self) {
        // SYNC: the entries are read before the kernel writes to their room.
        self.ring.word(self.ring.consumer).store(self.next, Ordering::Release);
    }
}

/// Chunks that the kernel may fill with frames.
///
/// The ring has two entries for each chunk. The kernel hands over a received frame first, and stores the counter of this ring
/// after that (`xsk_flush`). In between, the frame's chunk can come back while its old entry still occupies the ring. Each
/// chunk has at most one such entry and one that the kernel has not taken.
#[derive(Debug)]
pub(super) struct Fill {
    given: Given<u64>,
    /// Chunks that found the ring full. They go first when there is room.
    waiting: Vec<Chunk>,
}

impl Fill {
    /// Makes the ring for `chunks` chunks, a power of two.
    pub(super) fn make(socket: RawFd, chunks: u32) -> Result<Fill> {
        let kind = Kind {
            option: libc::XDP_UMEM_FILL_RING,
            offset: libc::XDP_UMEM_PGOFF_FILL_RING,
            which: 2,
        };
        Ring::make(socket, kind, Fill::entries(chunks)).map(Fill::of)
    }

    /// Number of entries of the ring for `chunks` chunks.
    fn entries(chunks: u32) -> u32 {
        2 * chunks
    }

    fn of(ring: Ring<u64>) -> Fill {
        Fill { given: Given { ring, next: 0, taken: 0 }, waiting: Vec::new() }
    }

    /// Gives a chunk to the kernel, from the next [`publish`](Fill::publish) on that finds room for it.
    pub(super) fn give(&mut self, chunk: Chunk) {
        if !self.given.put(chunk.0) {
            self.waiting.push(chunk);
        }
    }

    pub(super) fn publish(&mut self) {
        let given = &mut self.given;
        while self.waiting.pop_if(|chunk| given.put(chunk.0)).is_some() {}
        self.given.publish();
    }

    /// Returns true if a chunk waits for room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns true if the kernel looks into the ring in a system call only.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.given.wants_wakeup()
    }
}

/// Frames that have come.
#[derive(Debug)]
pub(super) struct Received(Taken<libc::xdp_desc>);

impl Received {
    pub(super) fn make(socket: RawFd, count: u32) -> Result<Received> {
        let kind =
            Kind { option: libc::XDP_RX_RING, offset: libc::XDP_PGOFF_RX_RING as u64, which: 0 };
        Ok(Received(Taken { ring: Ring::make(socket, kind, count)?, next: 0, there: 0 }))
    }

    /// The next frame, if there is one; `Err` with the chunk, if it has one, for a frame that lies in none.
    pub(super) fn next(
        &mut self,
        chunks: &Chunks,
    ) -> Option<core::result::Result<Came, Option<Chunk>>> {
        let entry = self.0.take()?;
        let Some(chunk) = chunks.chunk_at(entry.addr) else { return Some(Err(None)) };
        let (at, len) = (entry.addr as usize, entry.len as usize);
        if at - chunk.0 as usize + len > chunks.size {
            return Some(Err(Some(chunk)));
        }
        Some(Ok(Came { chunk, at, len }))
    }

    pub(super) fn publish(&self) {
        self.0.publish();
    }
}

/// Frames that are to go.
#[derive(Debug)]
pub(super) struct Sending(Given<libc::xdp_desc>);

impl Sending {
    pub(super) fn make(socket: RawFd, count: u32) -> Result<Sending> {
        let kind =
            Kind { option: libc::XDP_TX_RING, offset: libc::XDP_PGOFF_TX_RING as u64, which: 1 };
        Ring::make(socket, kind, count).map(Sending::of)
    }

    fn of(ring: Ring<libc::xdp_desc>) -> Sending {
        Sending(Given { ring, next: 0, taken: 0 })
    }

    /// Returns true if there is room for another frame. A chunk that has come back from [`Done`] need not have any. The
    /// kernel may complete a frame before it stores the counter of this ring.
    pub(super) fn has_room(&mut self) -> bool {
        self.0.has_room()
    }

    /// Gives the first `len` bytes of a chunk to the kernel as a frame, from the next [`publish`](Sending::publish) on.
    ///
    /// # Errors
    /// The chunk, if the ring is full.
    pub(super) fn give(&mut self, chunk: Chunk, len: usize) -> core::result::Result<(), Chunk> {
        let entry = libc::xdp_desc { addr: chunk.0, len: len as u32, options: 0 };
        if self.0.put(entry) { Ok(()) } else { Err(chunk) }
    }

    pub(super) fn publish(&self) {
        self.0.publish();
    }

    /// Frames that the kernel has not taken yet, and those that it has, counted on modulo 2^32.
    pub(super) fn left_and_taken(&mut self) -> (u32, u32) {
        (self.0.left(), self.0.taken)
    }

    /// Whether the kernel looks into the ring in a system call only.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.0.wants_wakeup()
    }
}

/// Chunks of frames that have gone.
#[derive(Debug)]
pub(super) struct Done(Taken<u64>);

impl Done {
    pub(super) fn make(socket: RawFd, count: u32) -> Result<Done> {
        let kind = Kind {
            option: libc::XDP_UMEM_COMPLETION_RING,
            offset: libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            which: 3,
        };
        Ok(Done(Taken { ring: Ring::make(socket, kind, count)?, next: 0, there: 0 }))
    }

    /// Takes back all that have gone.
    pub(super) fn take_back(&mut self, chunks: &Chunks, free: &mut Vec<Chunk>) {
        let before = self.0.next;
        while let Some(address) = self.0.take() {
            free.extend(chunks.chunk_at(address));
        }
        if self.0.next != before {
            self.0.publish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Bytes of the words before the entries.
    const WORDS: usize = 64;

    /// A ring without a socket.
    fn ring<T>(count: u32) -> Ring<T> {
        let mapping = Mapping::private(WORDS + count as usize * size_of::<T>()).unwrap();
        Ring {
            mapping,
            producer: 0,
            consumer: 4,
            flags: 8,
            entries: WORDS,
            count,
            _of: PhantomData,
        }
    }

    /// The kernel's end of a ring that this process fills, as in `net/xdp/xsk_queue.h`. Entries that it takes are free
    /// when it stores its counter, for several at a time.
    #[derive(Default)]
    struct Kernel {
        seen: u32,
        taken: u32,
    }

    impl Kernel {
        /// Takes the next entry. The counter is stored only when all those that were seen have been taken.
        fn take<T: Copy>(&mut self, ring: &Ring<T>) -> Option<T> {
            if self.taken == self.seen {
                self.release(ring);
                self.seen = ring.word(ring.producer).load(Ordering::Acquire);
            }
            if self.taken == self.seen {
                return None;
            }
            // SAFETY: `Ring::entry` keeps the pointer within the ring, and `Given` writes to no entry before `release`.
            let entry = unsafe { ring.entry(self.taken).read() };
            self.taken = self.taken.wrapping_add(1);
            Some(entry)
        }

        fn release<T: Copy>(&self, ring: &Ring<T>) {
            ring.word(ring.consumer).store(self.taken, Ordering::Release);
        }
    }

    fn filled(entries: u32, chunks: u32) -> Fill {
        let mut fill = Fill::of(ring(entries));
        (0..u64::from(chunks)).for_each(|n| fill.give(Chunk(n)));
        fill.publish();
        fill
    }

    #[test]
    fn fill_ring_takes_a_chunk_back_before_the_kernel_frees_its_entry() {
        let mut fill = filled(Fill::entries(4), 4);
        let mut kernel = Kernel::default();
        // The kernel hands over the frames and has not stored its counter yet.
        let received = [(); 4].map(|()| kernel.take(&fill.given.ring).unwrap());
        received.into_iter().for_each(|chunk| fill.give(Chunk(chunk)));
        fill.publish();
        assert_eq!([(); 4].map(|()| kernel.take(&fill.given.ring)), received.map(Some));
        assert_eq!(kernel.take(&fill.given.ring), None);
    }

    #[test]
    fn every_order_of_steps_leaves_room_in_the_fill_ring_for_every_chunk() {
        const CHUNKS: u32 = 2;
        const STEPS: u32 = 8;
        for order in 0..4u32.pow(STEPS) {
            let mut fill = filled(Fill::entries(CHUNKS), CHUNKS);
            let (mut kernel, mut received) = (Kernel::default(), Vec::new());
            for step in 0..STEPS {
                match order >> (2 * step) & 3 {
                    0 => received.extend(kernel.take(&fill.given.ring)),
                    1 => kernel.release(&fill.given.ring),
                    2 => received.pop().into_iter().for_each(|chunk| fill.give(Chunk(chunk))),
                    _ => fill.publish(),
                }
                assert!(fill.waiting.is_empty(), "order {order:#x}");
            }
            received.drain(..).for_each(|chunk| fill.give(Chunk(chunk)));
            fill.publish();
            let all: Vec<u64> = core::iter::from_fn(|| kernel.take(&fill.given.ring)).collect();
            let each: BTreeSet<u64> = all.iter().copied().collect();
            assert_eq!((all.len(), each.len()), (2, 2), "order {order:#x}: {all:?}");
        }
    }

    #[test]
    fn chunk_that_finds_the_fill_ring_full_is_given_when_there_is_room() {
        // One entry for each chunk, so that the ring can be full.
        let mut fill = filled(4, 4);
        let mut kernel = Kernel::default();
        let chunk = kernel.take(&fill.given.ring).unwrap();
        fill.give(Chunk(chunk));
        fill.publish();
        assert_eq!(fill.waiting.len(), 1);
        kernel.release(&fill.given.ring);
        fill.publish();
        assert!(fill.waiting.is_empty());
        let left: Vec<u64> = core::iter::from_fn(|| kernel.take(&fill.given.ring)).collect();
        assert_eq!(left, [1, 2, 3, 0]);
    }

    #[test]
    fn frame_that_finds_the_send_ring_full_leaves_its_chunk_with_the_caller() {
        let mut sending = Sending::of(ring(2));
        let mut kernel = Kernel::default();
        (0..2).for_each(|n| sending.give(Chunk(n), 9).unwrap());
        sending.publish();
        // The frame is sent and its chunk completed; the kernel has not stored its counter yet.
        let sent = kernel.take(&sending.0.ring).unwrap();
        assert!(!sending.has_room());
        let chunk = sending.give(Chunk(sent.addr), 9).unwrap_err();
        kernel.release(&sending.0.ring);
        assert!(sending.has_room());
        sending.give(chunk, 9).unwrap();
        assert_eq!(sending.left_and_taken(), (2, 1));
    }
}
