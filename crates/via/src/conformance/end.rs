//! A VI with memory to use it: what the cases are written with.

use super::{Context, SOON};
use crate::error::ConnectError;
use crate::queue::{Completion, Done};
use crate::{
    Connection, DataSegment, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Status, Vi,
    ViAttributes, ViState,
};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes from one descriptor to the next: the longest fits.
const DESCRIPTOR: usize = 4160;
/// Descriptors of an end.
const DESCRIPTORS: usize = 1024;
/// Where data begins.
const DATA: usize = DESCRIPTOR * DESCRIPTORS;

/// One end of a connection: a VI, and one region for descriptors and data.
#[derive(Debug)]
pub struct End<'n, N: Nic> {
    /// The NIC it belongs to.
    pub nic: &'n N,
    /// The VI.
    pub vi: N::Vi,
    /// The region.
    pub memory: Memory,
    /// The region's handle.
    pub handle: MemHandle,
}

impl<'n, N: Nic> End<'n, N> {
    /// An end with `bytes` of data memory, not connected.
    pub fn with(cx: &Context<'n, N>, bytes: usize, attributes: ViAttributes) -> End<'n, N> {
        let memory = Memory::zeroed(DATA + bytes);
        let region = MemAttributes { ptag: attributes.ptag, ..MemAttributes::default() };
        let handle = cx.nic.register_mem(&memory, region).unwrap();
        let vi = cx.nic.create_vi(attributes).unwrap();
        End { nic: cx.nic, vi, memory, handle }
    }

    /// An end with messages as long as the NIC allows, data memory for one of them, and a megabyte.
    pub fn new(cx: &Context<'n, N>) -> End<'n, N> {
        let max_transfer_size = cx.nic.attributes().max_transfer_size;
        let bytes = max_transfer_size as usize + (1 << 20);
        End::with(cx, bytes, ViAttributes { max_transfer_size, ..ViAttributes::default() })
    }

    /// A server's end, connected.
    pub fn accepted(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::new(cx);
        end.accept(cx);
        end
    }

    /// A client's end, connected.
    pub fn requested(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::new(cx);
        end.request(cx).unwrap();
        end
    }

    /// Accepts the next request.
    pub fn accept(&self, cx: &Context<'n, N>) {
        cx.nic.connect_wait(&cx.server, SOON).unwrap().accept(&self.vi).unwrap();
        // The peer may have ended it already.
        assert!(matches!(self.vi.state(), ViState::Connected | ViState::Error));
    }

    /// Requests a connection, again and again until somebody waits for it.
    pub fn request(&self, cx: &Context<'n, N>) -> Result<ViAttributes, ConnectError> {
        let begin = Instant::now();
        loop {
            match self.vi.connect_request(&cx.client(), &cx.server, SOON) {
                Err(ConnectError::NoMatch) if begin.elapsed() < Duration::from_secs(10) => {
                    assert_eq!(self.vi.state(), ViState::Idle);
                    thread::sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }

    /// A data segment of `len` bytes from byte `at` of the data memory on.
    pub fn data(&self, at: usize, len: usize) -> DataSegment {
        self.memory.segment(DATA + at, len as u32, self.handle)
    }

    /// Descriptor `i`, filled in.
    pub fn descriptor(
        &self,
        i: usize,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> DescriptorAddress {
        let at = i % DESCRIPTORS * DESCRIPTOR;
        self.memory.descriptor(at).unwrap().prepare(data, immediate).unwrap();
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    /// Posts a receive of `len` bytes at `at` with descriptor `i`.
    pub fn post_recv(&self, i: usize, at: usize, len: usize) -> DescriptorAddress {
        let descriptor = self.descriptor(i, &[self.data(at, len)], None);
        self.vi.post_recv(descriptor).unwrap();
        descriptor
    }

    /// Posts a send of `len` bytes at `at` with descriptor `i`.
    pub fn post_send(&self, i: usize, at: usize, len: usize) -> DescriptorAddress {
        let descriptor = self.descriptor(i, &[self.data(at, len)], None);
        self.vi.post_send(descriptor).unwrap();
        descriptor
    }

    /// Posts a send and waits for its end, which must be a good one.
    pub fn send(&self, i: usize, at: usize, len: usize) {
        let descriptor = self.post_send(i, at, len);
        let sent = self.sent();
        assert_eq!((sent.descriptor, sent.result()), (descriptor, Ok(len as u32)));
    }

    /// The next finished send.
    pub fn sent(&self) -> Completion {
        let completion = self.vi.send_wait(SOON).unwrap();
        self.check(&completion);
        completion
    }

    /// The next finished receive.
    pub fn received(&self) -> Completion {
        let completion = self.vi.recv_wait(SOON).unwrap();
        self.check(&completion);
        completion
    }

    /// A completion and its descriptor say the same.
    fn check(&self, completion: &Completion) {
        let descriptor = self.memory.descriptor_at(completion.descriptor.address).unwrap();
        assert_eq!(descriptor.status(), completion.status);
        assert_eq!(descriptor.length(), completion.length);
        assert_eq!(completion.status.contains(Status::IMMEDIATE), completion.immediate.is_some());
    }

    /// Fills data memory with a pattern.
    pub fn fill(&self, at: usize, len: usize, seed: usize) {
        let bytes: Vec<u8> = (0..len).map(|i| pattern(i, seed)).collect();
        self.write(at, &bytes);
    }

    /// Writes data memory.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.memory.write(DATA + at, bytes));
    }

    /// Whether data memory holds the pattern.
    #[track_caller]
    pub fn expect(&self, at: usize, len: usize, seed: usize) {
        check(&self.bytes(at, len), seed);
    }

    /// Data memory's bytes.
    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.memory.read(DATA + at, &mut bytes));
        bytes
    }

    /// Waits until the VI is in that state.
    #[track_caller]
    pub fn await_state(&self, state: ViState) {
        let begin = Instant::now();
        while self.vi.state() != state {
            assert!(begin.elapsed() < Duration::from_secs(10), "still {}", self.vi.state());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Both queues are empty.
    #[track_caller]
    pub fn nothing_posted(&self) {
        assert_eq!((self.vi.send_done(), self.vi.recv_done()), (Done::Empty, Done::Empty));
        assert_eq!(self.vi.queues_empty(), (true, true));
    }
}

/// Whether bytes are the pattern.
#[track_caller]
pub(super) fn check(bytes: &[u8], seed: usize) {
    let wrong = bytes.iter().enumerate().find(|&(i, &b)| b != pattern(i, seed));
    assert_eq!(wrong, None, "of {} bytes with seed {seed}", bytes.len());
}

fn pattern(i: usize, seed: usize) -> u8 {
    (i ^ i >> 8).wrapping_mul(31).wrapping_add(seed.wrapping_mul(17)) as u8
}
