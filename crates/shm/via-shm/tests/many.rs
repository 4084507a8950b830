//! Thousands of VIs between two processes: all of them work, and an idle one costs little.
#![cfg(not(loom))]

use crate::common::{finish, start};
use std::env;
use std::fs;
use via::{Connection, DataSegment, DescriptorAddress, MemAttributes, MemHandle, Memory};
use via::{Nic, Vi, ViAttributes, ViState};
use via_conformance::{Context, Line, SOON};
use via_shm::{ShmNic, ShmVi};

const VIS: usize = 4000;
/// Maximum memory of a connected idle VI, for both ends together, in bytes.
const COST: u64 = 8 << 10;
/// Bytes of memory for each VI: a descriptor for a receive and one for a send, and data for each.
const PLACE: usize = 256;

/// The VIs of one process, with memory for one message each way.
struct Many {
    nic: ShmNic,
    memory: Memory,
    handle: MemHandle,
    vis: Vec<ShmVi>,
}

impl Many {
    fn new(name: &str) -> Many {
        let nic = ShmNic::open(name).unwrap();
        let memory = Memory::zeroed(VIS * PLACE);
        // Touch the program's buffers first, so that they do not count.
        (0..VIS * PLACE).step_by(4096).for_each(|at| assert!(memory.write(at, &[0])));
        let handle = nic.register_mem(&memory, MemAttributes::default()).unwrap();
        let vis = Vec::with_capacity(VIS);
        Many { nic, memory, handle, vis }
    }

    fn make(&mut self) -> usize {
        let vi = self.nic.create_vi(ViAttributes::default()).unwrap();
        let i = self.vis.len();
        self.vis.push(vi);
        self.vis[i].post_recv(self.descriptor(i, 0)).unwrap();
        i
    }

    /// Prepares the descriptor of VI `i` for a receive (0) or a send (1) of 8 bytes.
    fn descriptor(&self, i: usize, which: usize) -> DescriptorAddress {
        let at = i * PLACE + which * 64;
        let data: DataSegment = self.memory.segment(i * PLACE + 128 + which * 64, 8, self.handle);
        self.memory.descriptor(at).unwrap().prepare(&[data], None).unwrap();
        DescriptorAddress { address: self.memory.address(at), handle: self.handle }
    }

    fn send(&self, i: usize, value: u64) {
        assert!(self.memory.write(i * PLACE + 192, &value.to_le_bytes()));
        self.vis[i].post_send(self.descriptor(i, 1)).unwrap();
        assert_eq!(self.vis[i].send_wait(SOON).unwrap().result(), Ok(8));
    }

    fn receive(&self, i: usize) -> u64 {
        assert_eq!(self.vis[i].recv_wait(SOON).unwrap().result(), Ok(8));
        let mut bytes = [0; 8];
        assert!(self.memory.read(i * PLACE + 128, &mut bytes));
        u64::from_le_bytes(bytes)
    }
}

/// Returns a process's private memory and its share of shared memory, in bytes.
fn memory_of(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn thousands_of_vis_work_and_cost_little() {
    let name = format!("many-{}", std::process::id());
    let mut many = Many::new(&name);
    let child = start("many::other_end", &[("VIA_NIC", &name)]);
    let all = || memory_of("self") + memory_of(&child.id().to_string());
    let nic = ShmNic::open(&name).unwrap();
    let line = Line::server(&Context { nic: &nic, server: nic.address(b"many") });
    line.hear();
    let before = all();
    line.tell(&[]);
    let address = many.nic.address(b"vis");
    for _ in 0..VIS {
        let i = many.make();
        let connection = many.nic.connect_wait(&address, SOON).unwrap();
        connection.accept(&many.vis[i]).unwrap();
    }
    line.hear();
    let idle = (all() - before) / VIS as u64;
    line.tell(&[]);
    for i in 0..VIS {
        assert_eq!(many.receive(i), i as u64);
        many.send(i, !(i as u64));
    }
    line.hear();
    let used = (all() - before) / VIS as u64;
    println!("a connected VI costs {idle} bytes, {used} once a message has gone each way");
    assert!(many.vis.iter().all(|vi| vi.state() == ViState::Connected));
    line.tell(&[]);
    drop(many);
    finish(child).unwrap();
    assert!(idle <= COST, "a connected VI costs {idle} bytes");
}

/// Runs the process at the other end. Returns at once if its environment variable is not set.
#[test]
fn other_end() {
    let Ok(name) = env::var("VIA_NIC") else { return };
    let mut many = Many::new(&name);
    let nic = ShmNic::open(&name).unwrap();
    let line = Line::client(&Context { nic: &nic, server: nic.address(b"many") });
    line.tell(&[]);
    line.hear();
    let (here, there) = (many.nic.address(b""), many.nic.address(b"vis"));
    for _ in 0..VIS {
        let i = many.make();
        while let Err(error) = many.vis[i].connect_request(&here, &there, SOON) {
            assert_eq!(error, via::error::ConnectError::NoMatch);
            std::thread::yield_now();
        }
    }
    line.tell(&[]);
    line.hear();
    for i in 0..VIS {
        many.send(i, i as u64);
        assert_eq!(many.receive(i), !(i as u64));
    }
    line.tell(&[]);
    line.hear();
}
