//! Two ends of a connection in a network that the test steps.
#![allow(dead_code, reason = "each test uses its own part of it")]

use core::time::Duration;
use std::sync::{Arc, Mutex};
use via::cq::Attach;
use via::{
    AsyncError, Completion, Connection, Control, DataSegment, DescriptorAddress, Done,
    MemAttributes, MemHandle, Memory, Nic, Reliability, RemoteSegment, Status, Vi, ViAttributes,
};
use via_sim::{Network, SimCq, SimNic, SimVi};

/// Distance between descriptors in bytes, for up to six segments.
const DESCRIPTOR: usize = 128;
/// Number of an end's descriptors.
pub(crate) const DESCRIPTORS: usize = 256;
const DATA: usize = DESCRIPTOR * DESCRIPTORS;

pub(crate) const RELIABLE: [Reliability; 2] =
    [Reliability::RELIABLE_DELIVERY, Reliability::RELIABLE_RECEPTION];

/// Runs a test for many seeds (times the variable `SEEDS`), or for the seed in the variable `SEED`. Prints the seed of
/// a failure.
pub(crate) fn seeds(count: u64, test: impl Fn(u64)) {
    let run = |seed: u64| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(why) = result {
            eprintln!("it failed with seed {seed}; SEED={seed} replays it");
            std::panic::resume_unwind(why);
        }
    };
    let variable = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match variable("SEED") {
        Some(seed) => run(seed),
        None => (0..count * variable("SEEDS").unwrap_or(1)).for_each(run),
    }
}

/// Returns attributes that allow everything.
pub(crate) fn open(reliability: Reliability) -> ViAttributes {
    ViAttributes {
        reliability,
        max_transfer_size: 64 << 10,
        ptag: None,
        enable_rdma_write: true,
        enable_rdma_read: reliability != Reliability::UNRELIABLE,
    }
}

pub(crate) fn open_memory() -> MemAttributes {
    MemAttributes { ptag: None, enable_rdma_write: true, enable_rdma_read: true }
}

/// Errors that an error handler has received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Errors(Arc<Mutex<Vec<AsyncError>>>);

impl Errors {
    pub(crate) fn of(nic: &SimNic) -> Errors {
        let errors = Errors::default();
        let list = errors.0.clone();
        nic.set_error_handler(Some(Arc::new(move |error| list.lock().unwrap().push(*error))));
        errors
    }

    pub(crate) fn take(&self) -> Vec<AsyncError> {
        core::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A VI with its memory.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) vi: SimVi,
    pub(crate) memory: Memory,
    pub(crate) handle: MemHandle,
}

impl End {
    pub(crate) fn new(nic: &SimNic, bytes: usize, attributes: ViAttributes) -> End {
        End::attached(nic, bytes, attributes, Attach::default())
    }

    pub(crate) fn attached(
        nic: &SimNic,
        bytes: usize,
        attributes: ViAttributes,
        attach: Attach<'_, SimCq>,
    ) -> End {
        let memory = Memory::zeroed(DATA + bytes);
        let region = MemAttributes { ptag: attributes.ptag, ..open_memory() };
        let handle = nic.register_mem(&memory, region).unwrap();
        End { vi: nic.create_vi_with(attributes, attach).unwrap(), memory, handle }
    }

    pub(crate) fn data(&self, at: usize, len: usize) -> DataSegment {
        self.memory.segment(DATA + at, len as u32, self.handle)
    }

    pub(crate) fn remote(&self, at: usize) -> RemoteSegment {
        RemoteSegment { address: self.memory.address(DATA + at), handle: self.handle.raw() }
    }

    pub(crate) fn place(&self, i: usize) -> DescriptorAddress {
        let at = i % DESCRIPTORS * DESCRIPTOR;
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    pub(crate) fn post_recv(&self, i: usize, at: usize, len: usize) {
        let place = self.place(i);
        let descriptor = self.memory.descriptor_at(place.address).unwrap();
        descriptor.prepare(&[self.data(at, len)], None).unwrap();
        self.vi.post_recv(place).unwrap();
    }

    pub(crate) fn post_send(&self, i: usize, at: usize, len: usize, immediate: Option<u32>) {
        let place = self.place(i);
        let descriptor = self.memory.descriptor_at(place.address).unwrap();
        descriptor.prepare(&[self.data(at, len)], immediate).unwrap();
        self.vi.post_send(place).unwrap();
    }

    pub(crate) fn post_rdma(
        &self,
        i: usize,
        control: Control,
        remote: RemoteSegment,
        (at, len): (usize, usize),
        immediate: Option<u32>,
    ) {
        let place = self.place(i);
        let descriptor = self.memory.descriptor_at(place.address).unwrap();
        descriptor.prepare_rdma(control, remote, &[self.data(at, len)], immediate).unwrap();
        self.vi.post_send(place).unwrap();
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.memory.write(DATA + at, bytes));
    }

    pub(crate) fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.memory.read(DATA + at, &mut bytes));
        bytes
    }

    /// Takes all completed descriptors of the send queue.
    pub(crate) fn sent(&self) -> Vec<Completion> {
        core::iter::from_fn(|| self.vi.send_done().completion()).collect()
    }

    pub(crate) fn received(&self) -> Vec<Completion> {
        core::iter::from_fn(|| self.vi.recv_done().completion()).collect()
    }

    pub(crate) fn nothing_posted(&self) {
        assert_eq!((self.vi.send_done(), self.vi.recv_done()), (Done::Empty, Done::Empty));
    }
}

/// Returns the error bits of completions, which are empty for successful ones.
pub(crate) fn errors(completions: &[Completion]) -> Vec<Status> {
    completions.iter().map(|completion| completion.status.errors()).collect()
}

/// Executes events until `look` returns a value.
#[track_caller]
pub(crate) fn until<R>(network: &Network, mut look: impl FnMut() -> Option<R>) -> R {
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(network.step(), "nothing happens any more");
    }
}

/// Connects two ends. The first requests the connection.
#[track_caller]
pub(crate) fn connect(network: &Network, client: (&SimNic, &End), server: (&SimNic, &End)) {
    let address = server.0.address(b"server");
    let listener = server.0.listen(&address).unwrap();
    let local = client.0.address(b"client");
    client.1.vi.request(&local, &address, Some(Duration::from_secs(60))).unwrap();
    until(network, || listener.poll()).accept(&server.1.vi).unwrap();
    until(network, || client.1.vi.request_done()).unwrap();
}

/// Makes two NICs with a connected end each.
pub(crate) fn pair(
    network: &Network,
    bytes: usize,
    attributes: ViAttributes,
) -> [(SimNic, End); 2] {
    let [a, b] = ["a", "b"].map(|name| {
        let nic = network.nic(name);
        let end = End::new(&nic, bytes, attributes);
        (nic, end)
    });
    connect(network, (&a.0, &a.1), (&b.0, &b.1));
    [a, b]
}

/// A source of random choices for a test.
#[derive(Debug)]
pub(crate) struct Choices(rand_chacha::ChaCha8Rng);

impl Choices {
    pub(crate) fn new(seed: u64) -> Choices {
        use rand_chacha::rand_core::SeedableRng;
        Choices(rand_chacha::ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        use rand_chacha::rand_core::RngCore;
        (self.0.next_u64() % limit as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        use rand_chacha::rand_core::RngCore;
        let mut bytes = vec![0; len];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
