//! One end of one or more VIs with their memory, which the players use.
//!
//! The memory is one region: short descriptors of two segments, long ones with the largest number of segments, then
//! data. Calls that poll spin without yielding the processor.

use std::hint;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use via::error::ConnectError;
use via::{
    Attach, Completion, Connection, Control as Operation, DataSegment, DescriptorAddress,
    DescriptorRef, Done, MemAttributes, MemHandle, Memory, NetAddress, Nic, RemoteSegment, Status,
    Vi, ViAttributes,
};

use super::control::Control;
use crate::measure::bench::task::{Role, Wait};

/// Longest message on the VIs in bytes, if the NIC allows it.
const TRANSFER_BYTES_MAX: usize = 8 << 20;
/// Distances between descriptors in bytes.
const SHORT_BYTES: usize = 64;
const LONG_BYTES: usize = 4096;
/// Number of segments in the longest descriptor.
pub(super) const SEGMENTS_MAX: usize = via::descriptor::SEGMENTS_MAX;
const DISCRIMINATOR: &[u8] = b"papers";
const TIMEOUT: Option<Duration> = Some(Duration::from_secs(20));

/// Sizes of an end's parts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    /// Number of descriptors with up to two segments.
    pub(super) short: usize,
    /// Number of descriptors with up to [`SEGMENTS_MAX`] segments.
    pub(super) long: usize,
    /// Size of the data in bytes.
    pub(super) data: usize,
}

/// A descriptor of an end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Short(usize),
    Long(usize),
}

/// One end.
pub(super) struct Station<N: Nic> {
    pub(super) nic: N,
    memory: Memory,
    handle: MemHandle,
    room: Room,
    wait: Wait,
    /// Memory of the peer's data.
    remote: RemoteSegment,
    role: Role,
    /// Host address of the responder's NIC.
    responder: Box<[u8]>,
    /// True if an end that waits for a change of its memory must call the NIC meanwhile.
    looks: bool,
}

impl<N: Nic> Station<N> {
    /// Makes an end on a NIC. Exchanges the addresses of the data with the peer. The requester also gets the address of
    /// the responder's NIC.
    pub(super) fn new(
        control: &mut Control,
        nic: N,
        (role, wait): (Role, Wait),
        room: Room,
    ) -> anyhow::Result<Self> {
        let memory = Memory::zeroed(data_at(room) + room.data);
        let attributes = MemAttributes { enable_rdma_write: true, ..MemAttributes::default() };
        let handle = nic.register_mem(&memory, attributes)?;
        let mine = [memory.address(data_at(room)), u64::from(handle.raw())];
        let [address, raw] = control.exchange(mine)?;
        let remote = RemoteSegment { address, handle: raw as u32 };
        let own = nic.attributes().local_address.clone();
        let responder = match role {
            Role::Responder => {
                control.tell_bytes(&own)?;
                own
            }
            Role::Requester => control.hear_bytes()?,
        };
        let looks = false;
        Ok(Self { nic, memory, handle, room, wait, remote, role, responder, looks })
    }

    /// Sets whether an end that waits for a change of its memory calls the NIC meanwhile. A NIC in software may make
    /// progress only in such calls.
    pub(super) fn with_looks(self, looks: bool) -> Self {
        Self { looks, ..self }
    }

    /// Makes an unconnected VI whose longest message is that of the NIC.
    pub(super) fn vi(&self, recv: Option<&N::Cq>, context: u64) -> anyhow::Result<N::Vi> {
        let attributes = ViAttributes {
            max_transfer_size: transfer_max(&self.nic) as u32,
            enable_rdma_write: true,
            ..ViAttributes::default()
        };
        Ok(self.nic.create_vi_with(attributes, Attach { send: None, recv, context })?)
    }

    /// Connects a VI with the VI that the peer connects at the same time. Post receives before this call.
    pub(super) fn connect(&self, vi: &N::Vi) -> anyhow::Result<()> {
        let address = NetAddress::new(&self.responder, DISCRIMINATOR);
        if self.role == Role::Responder {
            let request = self.nic.connect_wait(&address, TIMEOUT)?;
            request.accept(vi).map_err(|refused| refused.error)?;
            return Ok(());
        }
        let own = NetAddress::new(&self.nic.attributes().local_address, DISCRIMINATOR);
        loop {
            match vi.connect_request(&own, &address, TIMEOUT) {
                // The responder may not wait yet.
                Err(ConnectError::NoMatch) => std::thread::yield_now(),
                result => return result.map(drop).context("cannot connect a VI"),
            }
        }
    }

    /// Returns a data segment of `len` bytes at offset `at` of the data.
    pub(super) fn data(&self, at: usize, len: usize) -> DataSegment {
        self.memory.segment(data_at(self.room) + at, len as u32, self.handle)
    }

    fn place(&self, slot: Slot) -> usize {
        match slot {
            Slot::Short(i) => i % self.room.short.max(1) * SHORT_BYTES,
            Slot::Long(i) => short_bytes(self.room) + i % self.room.long.max(1) * LONG_BYTES,
        }
    }

    fn descriptor(&self, slot: Slot) -> anyhow::Result<DescriptorRef<'_>> {
        self.memory.descriptor(self.place(slot)).context("no such descriptor")
    }

    /// Returns the address of a descriptor, for posting.
    #[inline]
    pub(super) fn address(&self, slot: Slot) -> DescriptorAddress {
        DescriptorAddress { address: self.memory.address(self.place(slot)), handle: self.handle }
    }

    /// Fills in a descriptor for sending or receiving.
    pub(super) fn prepare(
        &self,
        slot: Slot,
        data: &[DataSegment],
    ) -> anyhow::Result<DescriptorAddress> {
        self.descriptor(slot)?.prepare(data, None)?;
        Ok(self.address(slot))
    }

    /// Fills in a descriptor for writing to the peer's data at offset `to`. With immediate data, the peer gets a
    /// completed receive.
    pub(super) fn prepare_write(
        &self,
        slot: Slot,
        data: DataSegment,
        to: usize,
        immediate: Option<u32>,
    ) -> anyhow::Result<DescriptorAddress> {
        let remote =
            RemoteSegment { address: self.remote.address + to as u64, handle: self.remote.handle };
        let descriptor = self.descriptor(slot)?;
        descriptor.prepare_rdma(Operation::OP_RDMAWRITE, remote, &[data], immediate)?;
        Ok(self.address(slot))
    }

    /// Returns the address of the data at offset `at`, valid for `len` bytes.
    pub(super) fn bytes(&self, at: usize, len: usize) -> anyhow::Result<NonNull<u8>> {
        let address = self.memory.address(data_at(self.room) + at);
        self.memory.range(address, len as u32).context("the range is beyond the end of the buffer")
    }

    /// Returns the word at offset `at` of the data.
    pub(super) fn word(&self, at: usize) -> anyhow::Result<&AtomicU32> {
        let place = self.bytes(at, 4)?.cast::<u32>();
        anyhow::ensure!(place.is_aligned(), "a word between words");
        // SAFETY: the four bytes are aligned, and their memory lives as long as `self`. Atomic operations and the NIC's
        // copies access them; a race can only change their values.
        Ok(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }

    /// Waits until `is` is true for a word of the data. `vi` must have a posted receive that no message uses.
    #[inline]
    pub(super) fn await_word(
        &self,
        vi: &N::Vi,
        word: &AtomicU32,
        is: impl Fn(u32) -> bool,
    ) -> anyhow::Result<()> {
        while !is(word.load(Ordering::Acquire)) {
            hint::spin_loop();
            if self.looks
                && let Done::Completion(completion) = vi.recv_done()
            {
                check(vi, Some(completion))?;
                bail!("a message has come where a write was due");
            }
        }
        Ok(())
    }

    /// Waits for the oldest send, and returns its completion.
    #[inline]
    pub(super) fn sent(&self, vi: &N::Vi) -> anyhow::Result<Completion> {
        let done = match self.wait {
            Wait::Poll => poll(|| vi.send_done()),
            Wait::Block | Wait::Sleep => vi.send_wait(TIMEOUT).ok(),
        };
        check(vi, done)
    }

    /// Waits for the oldest receive, and returns its completion.
    #[inline]
    pub(super) fn received(&self, vi: &N::Vi) -> anyhow::Result<Completion> {
        let done = match self.wait {
            Wait::Poll => poll(|| vi.recv_done()),
            Wait::Block | Wait::Sleep => vi.recv_wait(TIMEOUT).ok(),
        };
        check(vi, done)
    }

    /// Posts a send and waits for its completion.
    #[inline]
    pub(super) fn send(&self, vi: &N::Vi, descriptor: DescriptorAddress) -> anyhow::Result<()> {
        vi.post_send(descriptor)?;
        self.sent(vi).map(drop)
    }
}

/// Returns the longest message on VIs of a NIC, in bytes.
pub(super) fn transfer_max(nic: &impl Nic) -> usize {
    TRANSFER_BYTES_MAX.min(nic.attributes().max_transfer_size as usize)
}

fn short_bytes(room: Room) -> usize {
    (room.short * SHORT_BYTES).next_multiple_of(LONG_BYTES)
}

fn data_at(room: Room) -> usize {
    short_bytes(room) + room.long * LONG_BYTES
}

/// Spins until there is a completion. Returns `None` if nothing is posted.
#[inline]
fn poll(mut look: impl FnMut() -> Done) -> Option<Completion> {
    loop {
        match look() {
            Done::Completion(completion) => return Some(completion),
            Done::NotDone => hint::spin_loop(),
            Done::Empty => return None,
        }
    }
}

/// Returns a completion without an error, or the reason why there is none.
#[inline]
pub(super) fn check(vi: &impl Vi, done: Option<Completion>) -> anyhow::Result<Completion> {
    match done {
        Some(completion) if completion.result().is_ok() => Ok(completion),
        _ => broken(vi, done),
    }
}

#[cold]
fn broken(vi: &impl Vi, done: Option<Completion>) -> anyhow::Result<Completion> {
    let cause =
        vi.cause().map(|cause| format!("; the connection ended: {cause}")).unwrap_or_default();
    match done {
        Some(completion) => bail!("a descriptor failed: {}{cause}", failure(completion.status)),
        None => bail!("no descriptor was done in time{cause}"),
    }
}

/// Returns the errors of a descriptor's status as text.
fn failure(status: Status) -> String {
    let errors = [
        (Status::FORMAT_ERROR, "the descriptor is malformed"),
        (Status::PROTECTION_ERROR, "the memory handle or protection tag does not allow the access"),
        (Status::LENGTH_ERROR, "the message is longer than allowed, or than its receive"),
        (Status::PARTIAL_ERROR, "only a part of the data was transferred"),
        (
            Status::DESC_FLUSHED_ERROR,
            "the connection ended before the NIC processed the descriptor",
        ),
        (Status::TRANSPORT_ERROR, "the transport lost the data or the connection"),
        (Status::RDMA_PROT_ERROR, "the peer's memory does not allow the RDMA"),
        (Status::REMOTE_DESC_ERROR, "the peer's descriptor is in error"),
    ];
    let errors = errors.iter().filter(|(error, _)| status.contains(*error));
    errors.map(|(_, text)| *text).collect::<Vec<_>>().join(", ")
}
