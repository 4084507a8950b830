//! Tests of RDMA writes, reads and fences, and of refused RDMA.

use crate::common::{Choices, End, Errors, RELIABLE, connect, errors, open, pair, seeds};
use via::{
    Cause, Control, ErrorCode, MemAttributes, Nic, RemoteSegment, Status, Vi, ViAttributes, ViState,
};
use via_sim::{Config, Link, Network};

const WRITE: Control = Control::OP_RDMAWRITE;
const READ: Control = Control::OP_RDMAREAD;

#[test]
fn writes_and_reads_move_bytes() {
    seeds(60, |seed| {
        let mut choices = Choices::new(seed);
        let network = Network::new(seed, Config::default().over(Link::faulty(0.08)));
        let [(_, a), (_, b)] = pair(&network, 4 << 16, open(RELIABLE[choices.below(2)]));
        for round in 0..8 {
            let len = choices.below(1 << 16) + 1;
            let bytes = choices.bytes(len);
            a.write(0, &bytes);
            // The data is written and then read back to another place.
            a.post_rdma(0, WRITE, b.remote(1 << 16), (0, len), None);
            a.post_rdma(1, READ, b.remote(1 << 16), (1 << 16, len), None);
            network.run();
            let done = a.sent();
            let results: Vec<_> = done.iter().map(via::Completion::result).collect();
            assert_eq!(results, [Ok(len as u32), Ok(len as u32)], "round {round}");
            let operations: Vec<_> = done.iter().map(|d| d.status & Status::OP_MASK).collect();
            assert_eq!(operations, [Status::OP_RDMA_WRITE, Status::OP_RDMA_READ]);
            assert!(b.bytes(1 << 16, len) == bytes && a.bytes(1 << 16, len) == bytes);
            b.nothing_posted();
        }
        // A write with immediate data consumes a receive, but does not touch the receive's memory.
        b.post_recv(0, 0, 4);
        a.post_rdma(2, WRITE, b.remote(1 << 17), (0, 100), Some(0xfeed));
        network.run();
        let done = b.received()[0];
        assert_eq!((done.result(), done.immediate), (Ok(100), Some(0xfeed)));
        assert_eq!(done.status & Status::OP_MASK, Status::OP_REMOTE_RDMA_WRITE);
        assert_eq!((b.bytes(0, 4), b.bytes(1 << 17, 100)), (vec![0; 4], a.bytes(0, 100)));
    });
}

/// A send of data that a read brings must wait for the read.
#[test]
fn a_fence_waits_for_reads() {
    for fence in [Control::QFENCE, Control::empty()] {
        let network = Network::new(3, Config::default());
        let [(_, a), (_, b)] = pair(&network, 10_000, open(RELIABLE[0]));
        b.write(0, &[7; 100]);
        b.post_recv(0, 1000, 100);
        a.post_rdma(0, READ, b.remote(0), (0, 100), None);
        let place = a.place(1);
        let descriptor = a.memory.descriptor_at(place.address).unwrap();
        descriptor.prepare(&[a.data(0, 100)], None).unwrap();
        descriptor.set_control(fence);
        a.vi.post_send(place).unwrap();
        network.run();
        assert_eq!(errors(&a.sent()), [Status::empty(); 2]);
        assert_eq!(b.received()[0].result(), Ok(100));
        let expected = if fence.is_empty() { 0 } else { 7 };
        assert_eq!(b.bytes(1000, 100), [expected; 100], "{fence:?}");
    }
}

/// Tries the RDMA operations that the target must refuse.
fn forbidden(way: usize, network: &Network, control: Control, immediate: Option<u32>) {
    let read = control == READ;
    let [a_nic, b_nic] = ["a", "b"].map(|name| network.nic(name));
    let level = RELIABLE[way % 2];
    let a = End::new(&a_nic, 1000, open(level));
    let flags = ViAttributes {
        enable_rdma_write: read || way != 0,
        enable_rdma_read: !read || way != 0,
        ..open(level)
    };
    let b = End::new(&b_nic, 1000, flags);
    connect(network, (&a_nic, &a), (&b_nic, &b));
    let reports = Errors::of(&b_nic);
    let memory = |attributes| {
        let memory = via::Memory::zeroed(1000);
        let handle = b_nic.register_mem(&memory, attributes).unwrap();
        (RemoteSegment { address: memory.address(0), handle: handle.raw() }, memory, handle)
    };
    let all = MemAttributes { ptag: None, enable_rdma_write: true, enable_rdma_read: true };
    let (target, memory, handle) = match way {
        0 => memory(all),
        1 if read => memory(MemAttributes { enable_rdma_read: false, ..all }),
        1 => memory(MemAttributes { enable_rdma_write: false, ..all }),
        2 => memory(MemAttributes { ptag: Some(b_nic.create_ptag().unwrap()), ..all }),
        3 => {
            let (target, memory, handle) = memory(all);
            b_nic.deregister_mem(handle).unwrap();
            (target, memory, handle)
        }
        _ => {
            let (target, memory, handle) = memory(all);
            (RemoteSegment { address: memory.address(951), ..target }, memory, handle)
        }
    };
    let _ = handle;
    a.write(0, &[1; 50]);
    a.post_recv(9, 0, 10);
    b.post_recv(8, 0, 10);
    a.post_rdma(0, control, target, (0, 50), immediate);
    a.post_send(1, 0, 10, None);
    network.run();
    let sent = errors(&a.sent());
    assert_eq!(sent, [Status::RDMA_PROT_ERROR, Status::DESC_FLUSHED_ERROR], "way {way}");
    assert_eq!(errors(&a.received()), [Status::DESC_FLUSHED_ERROR]);
    let mut bytes = [0; 1000];
    assert!(memory.read(0, &mut bytes) && bytes == [0; 1000]);
    let code = if read { ErrorCode::RdmarProt } else { ErrorCode::RdmawProt };
    let told: Vec<_> = reports.take().iter().map(|e| (e.code, e.operation)).collect();
    assert_eq!(told, [(code, control)]);
    let expected = match immediate {
        Some(_) => Status::RDMA_PROT_ERROR,
        None => Status::DESC_FLUSHED_ERROR,
    };
    assert_eq!(errors(&b.received()), [expected]);
    assert_eq!((a.vi.state(), b.vi.state()), (ViState::Error, ViState::Error));
    assert_eq!(b.vi.cause(), Some(Cause::Rdma(code)));
}

#[test]
fn what_is_not_allowed_breaks_and_touches_nothing() {
    for way in 0..5 {
        for (control, immediate) in [(WRITE, None), (WRITE, Some(1)), (READ, None)] {
            forbidden(way, &Network::new(way as u64, Config::default()), control, immediate);
        }
    }
}

/// The initiator's own memory is checked too; for a read, when the answer arrives.
#[test]
fn the_initiators_memory_is_checked_at_the_access() {
    let network = Network::new(3, Config::default());
    let [(a_nic, a), (_, b)] = pair(&network, 10_000, open(RELIABLE[1]));
    let other = via::Memory::zeroed(100);
    let handle = a_nic.register_mem(&other, MemAttributes::default()).unwrap();
    let place = a.place(0);
    let descriptor = a.memory.descriptor_at(place.address).unwrap();
    let data = other.segment(0, 100, handle);
    descriptor.prepare_rdma(READ, b.remote(0), &[data], None).unwrap();
    b.write(0, &[3; 100]);
    a.vi.post_send(place).unwrap();
    // The NIC has sent the request. After that the memory is deregistered.
    network.step();
    a_nic.deregister_mem(handle).unwrap();
    network.run();
    assert_eq!(errors(&a.sent()), [Status::PROTECTION_ERROR]);
    let mut bytes = [0; 100];
    assert!(other.read(0, &mut bytes) && bytes == [0; 100]);
    assert_eq!((a.vi.state(), b.vi.state()), (ViState::Error, ViState::Error));
    assert_eq!(b.vi.cause(), Some(Cause::PeerBroke));
}
