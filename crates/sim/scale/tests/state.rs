//! Memory of a NIC, a VI and a channel, counted at the allocator.

use crate::common::compare;
use core::cell::Cell;
use core::fmt::Write;
use core::time::Duration;
use sovia_link::{Channel, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use via::{
    DescriptorAddress, MemAttributes, MemHandle, Memory, Nic, Reliability, Vi, ViAttributes,
};
use via_sim::{Config, Network, SimNic, SimVi};

/// An allocator that counts the bytes that each thread has allocated and not freed.
struct Counting;

thread_local! {
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    // An ending thread frees memory after its thread-local values have been dropped. These bytes need not be counted.
    let _ = BYTES.try_with(|all| all.set(all.get() + bytes));
}

// SAFETY: all calls are passed unchanged to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller passes a valid layout, which is passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller passes memory of this allocator with its layout. This allocator returns only memory of the
        // system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the result of `work`, and the number of bytes that it has allocated and not freed.
fn kept<R>(work: impl FnOnce() -> R) -> (R, i64) {
    let before = BYTES.get();
    let made = work();
    (made, BYTES.get() - before)
}

const COUNT: usize = 256;
const LEN: usize = 64 << 10;
const ATTRIBUTES: ViAttributes = ViAttributes {
    reliability: Reliability::RELIABLE_DELIVERY,
    max_transfer_size: LEN as u32,
    ptag: None,
    enable_rdma_write: false,
    enable_rdma_read: false,
};

/// Registers memory for two descriptors and one buffer.
fn register(nic: &SimNic) -> (Memory, MemHandle) {
    let memory = Memory::zeroed(256 + LEN);
    let open = MemAttributes { ptag: None, enable_rdma_write: false, enable_rdma_read: false };
    let handle = nic.register_mem(&memory, open).unwrap();
    (memory, handle)
}

/// Connects pairs of VIs. Each pair has its own discriminator.
fn connect(network: &Network, nics: &[SimNic; 2], vis: &[Vec<SimVi>; 2]) {
    for side in [0, 1] {
        for (n, vi) in vis[side].iter().enumerate() {
            let address = |nic: usize| nics[nic].address(&(n as u32).to_be_bytes());
            let minute = Some(Duration::from_secs(60));
            vi.connect_peer_request(&address(side), &address(1 - side), minute).unwrap();
        }
    }
    vis.iter().flatten().for_each(|vi| _ = vi.connect_peer_wait().unwrap());
    network.run_for(Duration::from_millis(1));
}

/// Sends a message of 64 KB from one VI to another.
fn send(network: &Network, vis: [&SimVi; 2], memory: &[(Memory, MemHandle); 2]) {
    let place = |side: usize| {
        let (memory, handle) = &memory[side];
        let address = memory.address(side * 128);
        let data = memory.segment(256, LEN as u32, *handle);
        memory.descriptor_at(address).unwrap().prepare(&[data], None).unwrap();
        DescriptorAddress { address, handle: *handle }
    };
    vis[1].post_recv(place(1)).unwrap();
    vis[0].post_send(place(0)).unwrap();
    network.run_for(Duration::from_millis(1));
    assert!(vis[0].send_done().completion().unwrap().result().is_ok());
    assert_eq!(vis[1].recv_done().completion().unwrap().result(), Ok(LEN as u32));
}

fn network() -> Network {
    Network::new(1, Config { window: 512, mtu: 1444, ..Config::default() })
}

/// Exchanges frames between two channels until there are none.
fn exchange(ends: &mut [Channel; 2]) {
    let (mut frame, mut message, mut quiet) = (Vec::new(), Vec::new(), false);
    while !core::mem::replace(&mut quiet, true) {
        for side in [0, 1] {
            while ends[side].poll_transmit(Time::ZERO, &mut frame) {
                quiet = false;
                ends[1 - side].handle_frame(Time::ZERO, &frame).unwrap();
            }
            while ends[side].poll_message(&mut message) {}
            while ends[side].poll_event().is_some() {}
        }
    }
}

#[test]
fn memory_for_nics_vis_and_channels_is_what_the_table_says() {
    let mut table = String::new();
    let mut say = |what: &str, bytes: i64| {
        writeln!(table, "{what:<58}{:>8}", bytes / COUNT as i64).unwrap();
    };

    let many = network();
    let name = |n: usize| format!("node{n:04}");
    let (_nics, bytes) = kept(|| (0..COUNT).map(|n| many.nic(&name(n))).collect::<Vec<_>>());
    say("a NIC", bytes);

    let network = network();
    let nics = ["a", "b"].map(|name| network.nic(name));
    let memory = [0, 1].map(|side| register(&nics[side]));
    let create =
        |nic: &SimNic| (0..COUNT).map(|_| nic.create_vi(ATTRIBUTES).unwrap()).collect::<Vec<_>>();
    let (vis, idle) = kept(|| [create(&nics[0]), create(&nics[1])]);
    say("a VI, not connected", idle / 2);
    let ((), connected) = kept(|| connect(&network, &nics, &vis));
    say("a VI, connected", (idle + connected) / 2);
    let pairs = || vis[0].iter().zip(&vis[1]);
    let ((), used) = kept(|| pairs().for_each(|(a, b)| send(&network, [a, b], &memory)));
    say("a VI, idle after a message of 64 KB (mean of both ends)", (idle + connected + used) / 2);
    vis.iter().flatten().for_each(|vi| vi.disconnect());
    network.run_for(Duration::from_secs(1));
    assert_eq!(network.connection_ends(), 0);

    let pair = |n: u32| {
        let config = sovia_link::Config { window: 2048, ..sovia_link::Config::default() };
        [Channel::between(config, n, 17, 39), Channel::between(config, n, 39, 17)]
    };
    let (mut channels, bytes) = kept(|| (0..COUNT as u32).map(pair).collect::<Vec<_>>());
    say("a channel to another host", bytes / 2);
    let ((), used) = kept(|| {
        for ends in &mut channels {
            ends[0].send(&[7; LEN]).unwrap();
            exchange(ends);
        }
    });
    say("a channel, idle after 64 KB (mean of both ends)", (bytes + used) / 2);
    compare("state.txt", &table);
}
