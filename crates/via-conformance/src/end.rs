//! A VI with its memory, which the cases use.

use super::{Context, SOON};
use std::thread;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::queue::{Completion, Done};
use via::{
    Attach, Connection, Control, DataSegment, DescriptorAddress, DescriptorRef, MemAttributes,
    MemHandle, Memory, NetAddress, Nic, Reliability, RemoteSegment, Status, Vi, ViAttributes,
    ViState,
};

/// Distance between descriptors in bytes. The longest descriptor fits.
const DESCRIPTOR: usize = 4160;
/// Number of an end's descriptors.
const DESCRIPTORS: usize = 1024;
/// Offset of the data.
const DATA: usize = DESCRIPTOR * DESCRIPTORS;

/// One end of a connection: a VI, and one region for descriptors and data.
#[derive(Debug)]
pub struct End<'n, N: Nic> {
    /// The end's NIC.
    pub nic: &'n N,
    /// The VI.
    pub vi: N::Vi,
    /// The region's memory.
    pub memory: Memory,
    /// The region's handle.
    pub handle: MemHandle,
}

/// Target of an RDMA: memory of the other role's end, whose address the other role has sent.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Address of the first byte.
    pub address: u64,
    /// Raw handle of the region.
    pub handle: u32,
}

impl Target {
    /// Encodes the target for a [`super::Line`].
    pub fn words(&self) -> [u64; 2] {
        [self.address, self.handle.into()]
    }

    /// Decodes a target from a [`super::Line`].
    pub fn heard(words: &[u64]) -> Target {
        Target { address: words[0], handle: words[1] as u32 }
    }

    /// Returns the remote segment at offset `at`.
    pub fn at(&self, at: usize) -> RemoteSegment {
        RemoteSegment { address: self.address + at as u64, handle: self.handle }
    }
}

/// Connects two ends of this role with each other.
pub fn connect<'n, N: Nic>(cx: &Context<'n, N>, server: &End<'n, N>, client: &End<'n, N>) {
    let place = cx.own(b'p');
    thread::scope(|s| {
        s.spawn(|| server.accept_at(&place));
        client.request_at(cx, &place).unwrap();
    });
}

/// Makes two ends of this role, connected with each other.
pub fn pair<'n, N: Nic>(cx: &Context<'n, N>, attributes: ViAttributes) -> (End<'n, N>, End<'n, N>) {
    let ends = (End::with(cx, 1 << 20, attributes), End::with(cx, 1 << 20, attributes));
    connect(cx, &ends.0, &ends.1);
    ends
}

impl<'n, N: Nic> End<'n, N> {
    /// Makes an unconnected end with `bytes` of data memory.
    pub fn attached(
        cx: &Context<'n, N>,
        bytes: usize,
        attributes: ViAttributes,
        attach: Attach<'_, N::Cq>,
    ) -> End<'n, N> {
        let memory = Memory::zeroed(DATA + bytes);
        let region = MemAttributes {
            ptag: attributes.ptag,
            enable_rdma_write: attributes.enable_rdma_write,
            enable_rdma_read: attributes.enable_rdma_read,
        };
        let handle = cx.nic.register_mem(&memory, region).unwrap();
        let vi = cx.nic.create_vi_with(attributes, attach).unwrap();
        End { nic: cx.nic, vi, memory, handle }
    }

    /// Makes an end without completion queues. Its memory allows RDMA if the VI does.
    pub fn with(cx: &Context<'n, N>, bytes: usize, attributes: ViAttributes) -> End<'n, N> {
        End::attached(cx, bytes, attributes, Attach::default())
    }

    /// Makes an end with messages as long as the NIC allows. It has data memory for one of them, and a megabyte more.
    pub fn new(cx: &Context<'n, N>) -> End<'n, N> {
        let max_transfer_size = cx.nic.attributes().max_transfer_size;
        let bytes = max_transfer_size as usize + (1 << 20);
        End::with(cx, bytes, ViAttributes { max_transfer_size, ..ViAttributes::default() })
    }

    /// Makes an end of a reliability level. Its peer may write and, if the NIC can, read.
    pub fn open(cx: &Context<'n, N>, reliability: Reliability) -> End<'n, N> {
        let attributes = ViAttributes {
            reliability,
            max_transfer_size: cx.nic.attributes().max_transfer_size,
            enable_rdma_write: true,
            enable_rdma_read: cx.nic.attributes().rdma_read.contains(reliability),
            ptag: None,
        };
        End::with(cx, 1 << 20, attributes)
    }

    /// Makes a server's end, and accepts a connection.
    pub fn accepted(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::new(cx);
        end.accept(cx);
        end
    }

    /// Makes a client's end, and connects it.
    pub fn requested(cx: &Context<'n, N>) -> End<'n, N> {
        let end = End::new(cx);
        end.request(cx).unwrap();
        end
    }

    /// Accepts the next request.
    pub fn accept(&self, cx: &Context<'n, N>) {
        self.accept_at(&cx.server);
    }

    /// Accepts the next request for an address.
    pub fn accept_at(&self, place: &NetAddress) {
        self.nic.connect_wait(place, SOON).unwrap().accept(&self.vi).unwrap();
        // The peer may have ended the connection already.
        assert!(matches!(self.vi.state(), ViState::Connected | ViState::Error));
    }

    /// Requests a connection, and repeats the request until the other end waits for it.
    pub fn request(&self, cx: &Context<'n, N>) -> Result<ViAttributes, ConnectError> {
        self.request_at(cx, &cx.server)
    }

    /// Like [`End::request`], for an address.
    pub fn request_at(
        &self,
        cx: &Context<'n, N>,
        place: &NetAddress,
    ) -> Result<ViAttributes, ConnectError> {
        self.request_within(cx, place, SOON)
    }

    /// Like [`End::request_at`], with a timeout for each request.
    pub fn request_within(
        &self,
        cx: &Context<'n, N>,
        place: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<ViAttributes, ConnectError> {
        let begin = Instant::now();
        loop {
            match self.vi.connect_request(&cx.client(), place, timeout) {
                Err(ConnectError::NoMatch) if begin.elapsed() < Duration::from_secs(10) => {
                    assert_eq!(self.vi.state(), ViState::Idle);
                    thread::sleep(Duration::from_millis(1));
                }
                result => return result,
            }
        }
    }

    /// Returns the data memory as a target for the other role's RDMA.
    pub fn target(&self) -> Target {
        Target { address: self.memory.address(DATA), handle: self.handle.raw() }
    }

    /// Returns descriptor `i`.
    pub fn place(&self, i: usize) -> DescriptorRef<'_> {
        self.memory.descriptor(i % DESCRIPTORS * DESCRIPTOR).unwrap()
    }

    /// Returns the address of descriptor `i`.
    pub fn address(&self, i: usize) -> u64 {
        self.memory.address(i % DESCRIPTORS * DESCRIPTOR)
    }

    /// Fills in descriptor `i` for an RDMA.
    pub fn rdma(
        &self,
        i: usize,
        control: Control,
        remote: RemoteSegment,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> DescriptorAddress {
        self.place(i).prepare_rdma(control, remote, data, immediate).unwrap();
        DescriptorAddress { address: self.address(i), handle: self.handle }
    }

    /// Posts an RDMA write of `len` bytes from offset `from`, with descriptor `i`.
    pub fn post_write(&self, i: usize, from: usize, len: usize, to: RemoteSegment) {
        let data = [self.data(from, len)];
        self.vi.post_send(self.rdma(i, Control::OP_RDMAWRITE, to, &data, None)).unwrap();
    }

    /// Posts an RDMA read of `len` bytes to offset `to`, with descriptor `i`.
    pub fn post_read(&self, i: usize, to: usize, len: usize, from: RemoteSegment) {
        let data = [self.data(to, len)];
        self.vi.post_send(self.rdma(i, Control::OP_RDMAREAD, from, &data, None)).unwrap();
    }

    /// Waits for the next send, and checks that it has this error.
    #[track_caller]
    pub fn sent_in(&self, error: Status) {
        let status = self.sent().result().expect_err("no error in the send");
        assert!(status.contains(error), "{status:?}");
    }

    /// Waits for the next receive, and checks that it has this error.
    #[track_caller]
    pub fn received_in(&self, error: Status) {
        let status = self.received().result().expect_err("no error in the receive");
        assert!(status.contains(error), "{status:?}");
    }

    /// Waits for the next receive, and checks that it has `len` bytes of the pattern at `at`.
    #[track_caller]
    pub fn receives(&self, at: usize, len: usize, seed: usize) {
        assert_eq!(self.received().result(), Ok(len as u32));
        self.expect(at, len, seed);
    }

    /// Fills data memory with a pattern and sends it.
    #[track_caller]
    pub fn send_pattern(&self, i: usize, at: usize, len: usize, seed: usize) {
        self.fill(at, len, seed);
        self.send(i, at, len);
    }

    /// Returns a data segment of `len` bytes at offset `at` of the data memory.
    pub fn data(&self, at: usize, len: usize) -> DataSegment {
        self.memory.segment(DATA + at, len as u32, self.handle)
    }

    /// Fills in descriptor `i`.
    pub fn descriptor(
        &self,
        i: usize,
        data: &[DataSegment],
        immediate: Option<u32>,
    ) -> DescriptorAddress {
        self.place(i).prepare(data, immediate).unwrap();
        DescriptorAddress { address: self.address(i), handle: self.handle }
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

    /// Posts a send, waits for its completion, and checks that it is successful.
    #[track_caller]
    pub fn send(&self, i: usize, at: usize, len: usize) {
        let descriptor = self.post_send(i, at, len);
        let sent = self.sent();
        assert_eq!((sent.descriptor, sent.result()), (descriptor, Ok(len as u32)));
    }

    /// Waits for the next send, and returns its completion.
    #[track_caller]
    pub fn sent(&self) -> Completion {
        let completion = self.vi.send_wait(SOON).unwrap();
        self.check(&completion);
        completion
    }

    /// Waits for the next receive, and returns its completion.
    #[track_caller]
    pub fn received(&self) -> Completion {
        let completion = self.vi.recv_wait(SOON).unwrap();
        self.check(&completion);
        completion
    }

    /// Checks that a completion and its descriptor agree.
    #[track_caller]
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

    /// Checks that data memory holds the pattern.
    #[track_caller]
    pub fn expect(&self, at: usize, len: usize, seed: usize) {
        check(&self.bytes(at, len), seed);
    }

    /// Returns bytes of the data memory.
    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.memory.read(DATA + at, &mut bytes));
        bytes
    }

    /// Waits until the VI is in this state.
    #[track_caller]
    pub fn await_state(&self, state: ViState) {
        let begin = Instant::now();
        while self.vi.state() != state {
            assert!(begin.elapsed() < Duration::from_secs(10), "still {}", self.vi.state());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Checks that both queues are empty.
    #[track_caller]
    pub fn nothing_posted(&self) {
        assert_eq!((self.vi.send_done(), self.vi.recv_done()), (Done::Empty, Done::Empty));
        assert_eq!(self.vi.queues_empty(), (true, true));
    }
}

/// Checks that bytes are the pattern.
#[track_caller]
pub(super) fn check(bytes: &[u8], seed: usize) {
    let wrong = bytes.iter().enumerate().find(|&(i, &b)| b != pattern(i, seed));
    assert_eq!(wrong, None, "of {} bytes with seed {seed}", bytes.len());
}

fn pattern(i: usize, seed: usize) -> u8 {
    (i ^ i >> 8).wrapping_mul(31).wrapping_add(seed.wrapping_mul(17)) as u8
}
