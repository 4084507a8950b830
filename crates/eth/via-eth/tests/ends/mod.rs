//! One end of a connection, for tests: a VI with memory for one message in each direction.

use via::{
    Connection, DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Status, Vi, ViAttributes,
};
use via_eth::{EthNic, EthVi};

/// Offsets of the send descriptor (after the receive descriptor) and of the send buffer (before the receive buffer).
const SENDS: usize = 64;
const OUT: usize = 128;

/// An end for messages of `len` bytes.
pub(crate) struct End {
    pub(crate) vi: EthVi,
    memory: Memory,
    handle: MemHandle,
    len: usize,
}

impl End {
    pub(crate) fn new(nic: &EthNic, len: usize) -> End {
        let attributes = ViAttributes { max_transfer_size: len as u32, ..ViAttributes::default() };
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(OUT + 2 * len);
        let handle = nic.register_mem(&memory, MemAttributes::default()).expect("a region");
        End { vi, memory, handle, len }
    }

    fn prepared(&self, descriptor: usize, data: usize) -> DescriptorAddress {
        let data = self.memory.segment(data, self.len as u32, self.handle);
        self.memory.descriptor(descriptor).expect("room").prepare(&[data], None).expect("it fits");
        DescriptorAddress { address: self.memory.address(descriptor), handle: self.handle }
    }

    pub(crate) fn receive(&self) {
        self.vi.post_recv(self.prepared(0, OUT + self.len)).expect("posted");
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        self.memory.write(OUT, bytes);
        self.vi.post_send(self.prepared(SENDS, OUT)).expect("posted");
        let done = self.vi.send_wait(None).expect("it is done");
        assert!(!done.status.intersects(Status::ERROR_MASK), "{:?}", done.status);
    }

    /// Returns the next message; `None` when the peer has disconnected.
    pub(crate) fn received(&self) -> Option<Vec<u8>> {
        let done = self.vi.recv_wait(None).ok()?;
        (!done.status.intersects(Status::ERROR_MASK)).then(|| {
            let mut bytes = vec![0; self.len];
            self.memory.read(OUT + self.len, &mut bytes);
            bytes
        })
    }
}

/// Accepts one client at the address `server`, and sends its messages back.
pub(crate) fn echo(nic: &EthNic, len: usize) {
    let end = End::new(nic, len);
    end.receive();
    let request = nic.connect_wait(&nic.address(b"server"), None).expect("a request");
    request.accept(&end.vi).expect("accepted");
    while let Some(bytes) = end.received() {
        end.receive();
        end.send(&bytes);
    }
}
