//! The memory that `AF_XDP` sockets share with this process: chunks for frames, and rings that carry the chunks'
//! addresses.
//!
//! At any time, either the kernel or this process owns a chunk. A type expresses ownership: only code with a [`Chunk`]
//! may read or write the bytes, and putting the chunk into a ring consumes the value. A ring has one producer and one
//! consumer. Each has a counter that the other side reads. The producer writes entries before its Release store of the
//! counter. The consumer reads entries after its Acquire load of the counter.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::call::{self, RawFd};
use sovia_sys::{Mapping, Result};

/// Bytes that the kernel leaves free in a chunk before an incoming frame: `XDP_PACKET_HEADROOM`.
pub(super) const HEADROOM: usize = 256;

/// A chunk that this process owns, identified by the offset of its first byte.
#[derive(Debug)]
pub(super) struct Chunk(u64);

/// The chunks, in contiguous memory. All sockets of a port share one such memory, so a [`Chunk`] needs no reference to
/// it.
#[derive(Debug)]
pub(super) struct Chunks {
    mapping: Mapping,
    /// Size of a chunk, a power of two.
    size: usize,
}

impl Chunks {
    /// Creates `count` chunks of `size` bytes, a power of two. This process owns all of them.
    ///
    /// # Errors
    /// Returns `ENOMEM`.
    pub(super) fn make(size: usize, count: usize) -> Result<(Chunks, Vec<Chunk>)> {
        let mapping = Mapping::private(size * count)?;
        // After a fork the kernel would use pages that this process no longer has.
        mapping.stays_out_of_copies();
        let all = (0..count).map(|n| Chunk((n * size) as u64)).collect();
        Ok((Chunks { mapping, size }, all))
    }

    /// Registers the chunks for a socket, and for all sockets that share with it.
    ///
    /// # Errors
    /// Returns `ENOBUFS` if the process may not lock enough memory.
    pub(super) fn register(&self, socket: RawFd) -> Result<()> {
        let chunks = libc::xdp_umem_reg {
            addr: self.mapping.base().expose_provenance() as u64,
            len: self.mapping.len() as u64,
            chunk_size: self.size as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        // The kernel keeps the pages until the sockets are closed, even after the mapping ends.
        call::setsockopt(socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &chunks)
    }

    /// Returns the bytes of an incoming frame.
    pub(super) fn frame<'a>(&'a self, came: &'a Came) -> &'a [u8] {
        // SAFETY: `Received::next` has checked that the range lies in its chunk. This process owns the chunk while
        // `came` is borrowed, and no code writes to it.
        unsafe { core::slice::from_raw_parts(self.mapping.base().add(came.at), came.len) }
    }

    /// Returns the bytes of a chunk.
    pub(super) fn bytes<'a>(&'a mut self, chunk: &'a mut Chunk) -> &'a mut [u8] {
        // SAFETY: `make` and `chunk_at` create only chunks in the mapping. This process owns the chunk, which stays
        // borrowed as long as the bytes.
        unsafe {
            core::slice::from_raw_parts_mut(self.mapping.base().add(chunk.0 as usize), self.size)
        }
    }

    /// Returns the chunk of an address that the kernel has given back.
    fn chunk_at(&self, address: u64) -> Option<Chunk> {
        (address < self.mapping.len() as u64).then(|| Chunk(address & !(self.size as u64 - 1)))
    }
}

/// An incoming frame in its chunk.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) chunk: Chunk,
    at: usize,
    len: usize,
}

/// A ring of a socket, with the layout from `XDP_MMAP_OFFSETS`.
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

/// The kind of a ring: the option that creates it, its offset for `mmap`, and its position among the four rings in
/// `XDP_MMAP_OFFSETS`.
#[derive(Debug, Clone, Copy)]
struct Kind {
    option: i32,
    offset: u64,
    which: usize,
}

impl<T: Copy> Ring<T> {
    /// Creates a ring for a socket that is not bound yet. `count` is the number of entries, a power of two.
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
        // SAFETY: `at` is one of the three offsets from the kernel. The offset names an aligned word in the mapping,
        // which both sides access only atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.base().add(at).cast()) }
    }

    /// Returns the entry with this number, modulo the ring's length.
    fn entry(&self, number: u32) -> *mut T {
        let at = self.entries + (number & (self.count - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has `count` entries from `entries` on.
        unsafe { self.mapping.base().add(at).cast() }
    }
}

/// A ring into which this process puts entries. The kernel owns them after [`publish`](Given::publish).
#[derive(Debug)]
struct Given<T> {
    ring: Ring<T>,
    next: u32,
    /// The kernel's counter, as of the last look.
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
        // SAFETY: `entry` returns an aligned pointer within the ring. `has_room` has seen the kernel's counter pass the
        // old entry. The kernel reads the new entry only after `publish`.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Returns the number of entries that the kernel has not taken, including unpublished ones.
    fn left(&mut self) -> u32 {
        // SYNC: pairs with the kernel's release store after it has read the entries. This process may write them again.
        self.taken = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        self.next.wrapping_sub(self.taken)
    }

    fn publish(&self) {
        // SYNC: pairs with the kernel's acquire load. The kernel sees the entries, and the bytes of their chunks.
        self.ring.word(self.ring.producer).store(self.next, Ordering::Release);
    }

    fn wants_wakeup(&self) -> bool {
        let flags = self.ring.word(self.ring.flags).load(Ordering::Relaxed);
        flags & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A ring from which this process takes entries. The kernel may reuse them after [`publish`](Taken::publish).
#[derive(Debug)]
struct Taken<T> {
    ring: Ring<T>,
    next: u32,
    /// The kernel's counter, as of the last look.
    there: u32,
}

impl<T: Copy> Taken<T> {
    fn take(&mut self) -> Option<T> {
        if self.next == self.there {
            // SYNC: pairs with the kernel's release store after it has written the entries and the bytes of their
            // chunks.
            self.there = self.ring.word(self.ring.producer).load(Ordering::Acquire);
            if self.next == self.there {
                return None;
            }
        }
        // SAFETY: `entry` returns an aligned pointer within the ring. The kernel has written the entry, and writes it
        // again only after `publish`.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    fn publish(&self) {
        // SYNC: pairs with the kernel's acquire load. This process has read the entries before the kernel writes them
        // again.
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

    /// Passes a chunk to the kernel, at the next [`publish`](Fill::publish) that finds room.
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

    /// Returns true if the kernel looks at the ring only in a system call.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.given.wants_wakeup()
    }
}

/// Incoming frames.
#[derive(Debug)]
pub(super) struct Received(Taken<libc::xdp_desc>);

impl Received {
    pub(super) fn make(socket: RawFd, count: u32) -> Result<Received> {
        let kind =
            Kind { option: libc::XDP_RX_RING, offset: libc::XDP_PGOFF_RX_RING as u64, which: 0 };
        Ok(Received(Taken { ring: Ring::make(socket, kind, count)?, next: 0, there: 0 }))
    }

    /// Returns the next frame, or `None`. Returns `Err` for a frame that does not lie in a chunk, with the chunk if it
    /// has one.
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

/// Outgoing frames.
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

    /// Passes the first `len` bytes of a chunk to the kernel as a frame, at the next [`publish`](Sending::publish).
    ///
    /// # Errors
    /// Returns the chunk if the ring is full.
    pub(super) fn give(&mut self, chunk: Chunk, len: usize) -> core::result::Result<(), Chunk> {
        let entry = libc::xdp_desc { addr: chunk.0, len: len as u32, options: 0 };
        if self.0.put(entry) { Ok(()) } else { Err(chunk) }
    }

    pub(super) fn publish(&self) {
        self.0.publish();
    }

    /// Returns the number of frames that the kernel has not taken, and the total number taken, modulo 2^32.
    pub(super) fn left_and_taken(&mut self) -> (u32, u32) {
        (self.0.left(), self.0.taken)
    }

    /// Returns true if the kernel looks at the ring only in a system call.
    pub(super) fn wants_wakeup(&self) -> bool {
        self.0.wants_wakeup()
    }
}

/// Chunks of sent frames.
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

    /// Takes back the chunks of all sent frames.
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
        // The kernel hands over the frames, but has not stored its counter yet.
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
