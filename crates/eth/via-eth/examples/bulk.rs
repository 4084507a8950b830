//! Measures the rate at which one NIC writes into another NIC's memory, for some seconds. Use it for networks that are
//! long, narrow or lossy, on which `pingpong` takes too long.
//!
//! `bulk PLACE PLACE NETNS NETNS SECONDS [bbr|fixed]`. The arguments are the ports of the two NICs
//! (`udp:10.0.0.1:7000`, `eth:eth0`), the names of their network namespaces, the duration, and the congestion control.
//! The second NIC writes to the first by RDMA. Prints megabits per second, counting bytes that are known to have
//! arrived. The first two seconds do not count.

use sovia_sys::{Fd, netns};
use std::os::fd::IntoRawFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use via::error::ConnectError;
use via::{
    Connection, Control as Operation, DescriptorAddress, MemAttributes, Memory, NetAddress, Nic,
    RemoteSegment, Status, Vi, ViAttributes,
};
use via_eth::{Config, Control, Place};

/// Bytes of a message, and number of messages under way.
const MESSAGE: usize = 64 << 10;
const POSTED: usize = 128;
/// Time before the measurement.
const BEFORE: Duration = Duration::from_secs(2);

/// Moves the calling thread into a network namespace.
fn enter(name: &str) {
    let file = std::fs::File::open(format!("/run/netns/{name}")).expect("a network namespace");
    netns::enter(&Fd::adopt(file.into_raw_fd())).expect("it can be entered");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [one, other, near, far, seconds, control @ ..] = words.as_slice() else {
        eprintln!("usage: bulk PLACE PLACE NETNS NETNS SECONDS [bbr|fixed]");
        std::process::exit(2);
    };
    let control = control.first().map_or(Control::Bbr, |word| word.parse().expect("a control"));
    let time = Duration::from_secs(seconds.parse().expect("seconds"));
    let places: [Place; 2] = [one, other].map(|word| word.parse().expect("a place"));
    let open = |place: &Place| Config { control, ..Config::new(place.clone()) }.open();
    let attributes = ViAttributes {
        max_transfer_size: MESSAGE as u32,
        enable_rdma_write: true,
        ..ViAttributes::default()
    };
    let rights = MemAttributes { enable_rdma_write: true, ..MemAttributes::default() };
    let (tell, told) = channel();
    std::thread::scope(|s| {
        let place = &places[0];
        s.spawn(move || {
            enter(near);
            let nic = open(place).expect("a NIC");
            let vi = nic.create_vi(attributes).expect("a VI");
            let memory = Memory::zeroed(MESSAGE);
            let handle = nic.register_mem(&memory, rights).expect("a region");
            let server = nic.address(b"bulk");
            tell.send((server.host.to_vec(), memory.address(0), handle.raw())).expect("a listener");
            nic.connect_wait(&server, None).expect("a request").accept(&vi).expect("accepted");
            // The NIC's own thread handles all RDMA, until the other end disconnects.
            let descriptors = Memory::zeroed(64);
            let descriptor = nic.register_mem(&descriptors, rights).expect("a region");
            descriptors.descriptor(0).expect("room").prepare(&[], None).expect("it fits");
            let address = descriptors.address(0);
            vi.post_recv(DescriptorAddress { address, handle: descriptor }).expect("posted");
            let _ = vi.recv_wait(None);
        });
        enter(far);
        let nic = open(&places[1]).expect("a NIC");
        let vi = nic.create_vi(attributes).expect("a VI");
        let memory = Memory::zeroed(POSTED * 64 + MESSAGE);
        let handle = nic.register_mem(&memory, rights).expect("a region");
        let (host, address, remote) = told.recv().expect("a NIC");
        let server = NetAddress::new(&host, b"bulk");
        // Repeats the request until the other end waits for it.
        while vi.connect_request(&nic.address(b"client"), &server, None)
            == Err(ConnectError::NoMatch)
        {}
        let data = memory.segment(POSTED * 64, MESSAGE as u32, handle);
        let post = |n: usize| {
            let at = n % POSTED * 64;
            let remote = RemoteSegment { address, handle: remote };
            let descriptor = memory.descriptor(at).expect("room");
            descriptor.prepare_rdma(Operation::OP_RDMAWRITE, remote, &[data], None).expect("room");
            let at = DescriptorAddress { address: memory.address(at), handle };
            vi.post_send(at).expect("posted");
        };
        let (mut posted, mut done) = (0, 0);
        let (mut begin, mut counted_from) = (Instant::now(), None);
        while counted_from.is_none() || begin.elapsed() < time {
            if counted_from.is_none() && begin.elapsed() >= BEFORE {
                (begin, counted_from) = (Instant::now(), Some(done));
            }
            while posted - done < POSTED {
                post(posted);
                posted += 1;
            }
            let status = vi.send_wait(None).expect("it comes").status;
            assert!(!status.intersects(Status::ERROR_MASK), "{status:?}");
            done += 1;
        }
        let bits = ((done - counted_from.unwrap_or(0)) * MESSAGE * 8) as f64;
        println!("{:.1}", bits / begin.elapsed().as_secs_f64() / 1e6);
        vi.disconnect();
    });
}
