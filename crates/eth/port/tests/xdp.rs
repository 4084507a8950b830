//! Tests of `AF_XDP` sockets on a veth pair.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::common::{
    are_accounted_for, await_frames, contents, ip, link_shows, only_ours_come, put, with_queues,
    with_veth,
};
use sovia_port::packet::{self, Packet};
use sovia_port::xdp::{Config, Xdp};
use sovia_port::{Address, Error, Port, Refused};
use sovia_sys::{Errno, poll};

/// The driver or the kernel runs the program.
const MODES: [&str; 2] = ["native", "generic"];

fn config(device: &str, mode: &str) -> Config {
    Config { generic: mode == "generic", ..Config::new(device) }
}

fn open(device: &str, mode: &str) -> Xdp {
    let port = Xdp::open(&config(device, mode)).unwrap();
    let told = port.describe();
    assert!(told.contains(mode) && told.contains(device), "{told}");
    port
}

/// Runs a test on a pair of devices in each mode, with ports on both and the address of the second one.
fn in_each_mode(name: &str, test: impl Fn(&str, Xdp, Xdp, Address) + Sync) {
    for mode in MODES {
        with_veth(name, || {
            let (one, other) = (open("one", mode), open("other", mode));
            let to = Address::Mac(other.own());
            test(mode, one, other, to);
        });
    }
}

#[test]
fn frames_of_any_lengths_arrive_in_order_with_their_senders_address() {
    let name = "frames_of_any_lengths_arrive_in_order_with_their_senders_address";
    in_each_mode(name, |_, mut one, mut other, to| {
        let max = one.frame_max();
        assert_eq!(max, 1500);
        let lens = [0, 1, 2, 3, 46, 47, 100, 777, max - 1, max, max, max, 7, 0];
        let frames: Vec<Vec<u8>> = lens.iter().zip(1u8..).map(|(&len, i)| vec![i; len]).collect();
        // Enough rounds to use each chunk several times.
        for _ in 0..500 {
            for frame in &frames {
                put(&mut one, frame, &to);
            }
            assert_eq!(one.flush(), Ok(0));
            assert_eq!(await_frames(&mut other, frames.len()), frames);
        }
        assert_eq!(one.counters().sent, 500 * frames.len() as u64);
        assert_eq!(other.counters().received, 500 * frames.len() as u64);
        assert_eq!(other.counters().missed, 0);

        put(&mut other, b"back", &Address::Mac(one.own()));
        assert_eq!(other.flush(), Ok(0));
        poll::wait(one.descriptors().frames, libc::POLLIN);
        let mut from = None;
        assert_eq!(one.receive(&mut |sender, _| from = Some(*sender)), Ok(1));
        assert_eq!(from, Some(to));
    });
}

#[test]
fn descriptor_is_readable_while_frames_are_there() {
    in_each_mode("descriptor_is_readable_while_frames_are_there", |_, mut one, mut other, to| {
        let frames = other.descriptors().frames;
        assert_eq!(poll::probe(frames, libc::POLLIN), 0);
        put(&mut one, b"news", &to);
        assert_eq!(poll::probe(frames, libc::POLLIN), 0, "nothing goes before the flush");
        one.flush().unwrap();
        poll::wait(frames, libc::POLLIN);
        assert_eq!(contents(&mut other), [b"news"]);
        assert_eq!(poll::probe(frames, libc::POLLIN), 0);
        let room = one.descriptors().room;
        assert_eq!(poll::probe(room, libc::POLLOUT), libc::POLLOUT);
    });
}

#[test]
fn packet_socket_and_xdp_reach_each_other() {
    for mode in MODES {
        with_veth("packet_socket_and_xdp_reach_each_other", || {
            let mut one = Packet::open(&packet::Config::new("one")).unwrap();
            let mut other = open("other", mode);
            for len in [0, 1, 45, 1499, 1500] {
                put(&mut one, &vec![1; len], &Address::Mac(other.own()));
                one.flush().unwrap();
                assert_eq!(await_frames(&mut other, 1), [vec![1; len]]);
                put(&mut other, &vec![2; len], &Address::Mac(one.own()));
                other.flush().unwrap();
                assert_eq!(await_frames(&mut one, 1), [vec![2; len]]);
            }
        });
    }
}

#[test]
fn port_that_is_full_gives_no_slot_and_has_room_after_a_flush() {
    let name = "port_that_is_full_gives_no_slot_and_has_room_after_a_flush";
    in_each_mode(name, |_, mut one, _other, to| {
        let mut committed = 0;
        while let Some(slot) = one.slot() {
            assert_eq!(slot.len(), 1500);
            one.commit(9, &to).unwrap();
            committed += 1;
        }
        assert!(committed >= 64);
        assert_eq!(one.commit(9, &to), Err(Refused::Full));
        assert_eq!(one.counters().refused_full, 1);
        assert_eq!(one.flush(), Ok(0));
        assert!(one.slot().is_some());
        let counters = one.counters();
        assert_eq!(counters.sent + counters.unsendable, committed);
    });
}

#[test]
fn full_ring_counts_every_lost_frame_and_never_blocks() {
    let name = "full_ring_counts_every_lost_frame_and_never_blocks";
    in_each_mode(name, |_, mut one, mut other, to| {
        let mut accepted = 0u32;
        // Sends at most as many frames at a time as the device holds.
        for _ in 0..200 {
            for _ in 0..64 {
                put(&mut one, &accepted.to_be_bytes(), &to);
                accepted += 1;
            }
            while one.flush().unwrap() > 0 {
                poll::wait(one.descriptors().room, libc::POLLOUT);
            }
        }
        are_accounted_for(&mut one, &mut other, accepted);

        // The rings work again for more than one lap.
        for n in 0..10_000u32 {
            put(&mut one, &n.to_be_bytes(), &to);
            one.flush().unwrap();
            assert_eq!(await_frames(&mut other, 1), [n.to_be_bytes()]);
        }
    });
}

/// The kernel hands over a frame before it frees the entry of the frame's chunk. A spinning receiver returns the chunk
/// in between.
#[test]
fn receiver_that_spins_can_give_every_chunk_back_at_once() {
    const FRAMES: u32 = 10_000;
    let name = "receiver_that_spins_can_give_every_chunk_back_at_once";
    in_each_mode(name, |_, mut one, mut other, to| {
        let received = &AtomicU32::new(0);
        let (frames, missed) = std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let mut frames = Vec::new();
                for n in 0..FRAMES {
                    while other.receive(&mut |_, frame| frames.push(frame.to_vec())).unwrap() == 0 {
                        std::hint::spin_loop();
                    }
                    received.store(n + 1, Ordering::Release);
                }
                (frames, other.counters().missed)
            });
            'frames: for n in 0..FRAMES {
                put(&mut one, &n.to_be_bytes(), &to);
                assert_eq!(one.flush(), Ok(0));
                while received.load(Ordering::Acquire) == n {
                    if receiver.is_finished() {
                        break 'frames;
                    }
                }
            }
            receiver.join().unwrap()
        });
        assert!(frames.into_iter().eq((0..FRAMES).map(|n| n.to_be_bytes())));
        assert_eq!(missed, 0);
    });
}

#[test]
fn frames_of_another_ether_type_or_for_another_address_do_not_come() {
    let name = "frames_of_another_ether_type_or_for_another_address_do_not_come";
    in_each_mode(name, |_, mut one, mut other, to| {
        // `foreign` sends on the device of the XDP port. `left` receives the frames that the program leaves to the
        // kernel.
        let of = |device| packet::Config { ether_type: 0x88b6, ..packet::Config::new(device) };
        let mut foreign = Packet::open(&of("one")).unwrap();
        let mut left = Packet::open(&of("other")).unwrap();
        put(&mut foreign, b"another type", &to);
        foreign.flush().unwrap();
        assert_eq!(await_frames(&mut left, 1), [b"another type"]);
        only_ours_come(&mut one, &mut other, &to);
    });
}

#[test]
fn internet_traffic_of_the_kernel_passes() {
    use std::net::UdpSocket;
    use std::sync::mpsc::channel;
    for mode in MODES {
        with_veth("internet_traffic_of_the_kernel_passes", || {
            let (tell, told) = channel();
            let (go, moved) = channel();
            let (done, is_done) = channel::<()>();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    sovia_sys::netns::fresh().unwrap();
                    tell.send(sovia_sys::call::gettid()).unwrap();
                    moved.recv().unwrap();
                    ip("link set other up");
                    ip("addr add 10.99.0.2/24 dev other");
                    let mut port = open("other", mode);
                    let socket = UdpSocket::bind("10.99.0.2:7").unwrap();
                    tell.send(0).unwrap();
                    let mut bytes = [0; 2000];
                    for _ in 0..100 {
                        let (len, from) = socket.recv_from(&mut bytes).unwrap();
                        socket.send_to(&bytes[..len], from).unwrap();
                    }
                    assert_eq!(await_frames(&mut port, 100).len(), 100);
                    // Keeps the socket for the answers open until they have arrived.
                    is_done.recv().unwrap();
                });
                ip(&format!("link set other netns {}", told.recv().unwrap()));
                go.send(()).unwrap();
                ip("addr add 10.99.0.1/24 dev one");
                told.recv().unwrap();
                let mut port = open("one", mode);
                let socket = UdpSocket::bind("10.99.0.1:0").unwrap();
                socket.connect("10.99.0.2:7").unwrap();
                for n in 0..100u8 {
                    // ARP frames also go through the kernel. The XDP port sends between them.
                    let len = usize::from(n) * 14;
                    socket.send(&vec![n; len]).unwrap();
                    put(&mut port, &[n; 60], &Address::Mac([0xff; 6]));
                    assert_eq!(port.flush(), Ok(0));
                    let mut bytes = [0; 2000];
                    assert_eq!(socket.recv(&mut bytes).unwrap(), len);
                    assert!(bytes[..len].iter().all(|&byte| byte == n));
                }
                done.send(()).unwrap();
            });
        });
    }
}

#[test]
fn mtu_that_changes_is_seen_and_kept_to() {
    for mode in MODES {
        with_veth("mtu_that_changes_is_seen_and_kept_to", || {
            let roomy = |device| Xdp::open(&Config { room: 9000, ..config(device, mode) }).unwrap();
            let (mut one, mut other) = (roomy("one"), roomy("other"));
            let to = Address::Mac(other.own());
            assert_eq!(one.frame_max(), 1500);
            for mtu in [3000, 3400, 1000, 1500] {
                ip(&format!("link set one mtu {mtu}"));
                ip(&format!("link set other mtu {mtu}"));
                poll::wait(one.descriptors().news.unwrap(), libc::POLLIN);
                one.check().unwrap();
                let max = one.frame_max();
                assert_eq!(max, mtu);
                assert_eq!(one.commit(max + 1, &to), Err(Refused::Length));
                put(&mut one, &vec![3; max], &to);
                one.flush().unwrap();
                assert_eq!(await_frames(&mut other, 1), [vec![3; max]]);
            }
            assert_eq!(one.counters().refused_length, 4);
        });
    }
}

#[test]
fn device_of_a_large_mtu_takes_frames_as_long_as_a_chunk() {
    for mode in MODES {
        with_veth("device_of_a_large_mtu_takes_frames_as_long_as_a_chunk", || {
            ip("link set one mtu 9000");
            ip("link set other mtu 9000");
            let mut packet = Packet::open(&packet::Config::new("one")).unwrap();
            let mut one = Xdp::open(&config("one", mode)).unwrap();
            let mut other = Xdp::open(&config("other", mode)).unwrap();
            let to = Address::Mac(other.own());
            let max = one.frame_max();
            assert_eq!(max, 3826);
            for len in [max, max - 1, 1] {
                put(&mut one, &vec![5; len], &to);
                one.flush().unwrap();
                assert_eq!(await_frames(&mut other, 1), [vec![5; len]]);
            }
            // A longer frame is lost and counted.
            put(&mut packet, &vec![6; max + 1], &to);
            put(&mut packet, &[7; 9], &to);
            packet.flush().unwrap();
            assert_eq!(await_frames(&mut other, 1), [[7; 9]]);
            assert_eq!(other.counters().missed, 1);
        });
    }
}

#[test]
fn device_that_is_down_is_an_error_until_up_again() {
    let name = "device_that_is_down_is_an_error_until_up_again";
    in_each_mode(name, |_, mut one, mut other, to| {
        ip("link set one down");
        put(&mut one, b"kept", &to);
        assert_eq!(one.flush(), Err(Error::Down));
        assert_eq!(one.check(), Err(Error::Down));
        ip("link set one up");
        assert_eq!(one.check(), Ok(()));
        assert_eq!(one.flush(), Ok(0));
        assert_eq!(await_frames(&mut other, 1), [b"kept"]);
        put(&mut other, b"back", &Address::Mac(one.own()));
        assert_eq!(other.flush(), Ok(0));
        assert_eq!(await_frames(&mut one, 1), [b"back"]);
    });
}

#[test]
fn device_that_is_deleted_wakes_its_ports_with_a_typed_error() {
    let name = "device_that_is_deleted_wakes_its_ports_with_a_typed_error";
    in_each_mode(name, |_, mut one, mut other, to| {
        put(&mut one, b"late", &to);
        ip("link del one");
        for port in [&mut one, &mut other] {
            poll::wait(port.descriptors().news.unwrap(), libc::POLLIN);
            assert_eq!(port.check(), Err(Error::Gone));
        }
        assert_eq!(one.flush(), Err(Error::Gone));
        assert_eq!(one.receive(&mut |_, _| panic!("nothing was sent")), Ok(0));
        let _ = (one.counters(), other.counters());
    });
}

#[test]
fn device_has_a_program_while_its_port_is_open_and_one_port_at_a_time() {
    for mode in MODES {
        with_veth("device_has_a_program_while_its_port_is_open_and_one_port_at_a_time", || {
            for _ in 0..3 {
                assert!(!link_shows("one", "xdp"));
                let port = open("one", mode);
                assert!(link_shows("one", "xdp"));
                for mode in MODES {
                    let refused = Xdp::open(&config("one", mode)).unwrap_err();
                    assert!(matches!(refused.why, Errno::EBUSY | Errno::EEXIST), "{refused}");
                    assert!(refused.to_string().contains("another port or program"), "{refused}");
                }
                assert!(link_shows("one", "xdp"), "a port that is refused takes no other's away");
                drop(port);
            }
            assert!(!link_shows("one", "xdp"));
        });
    }
}

/// Environment variable of the child process, which opens a port, reports this, and waits to be killed.
const HOLDS: &str = "SOVIA_TEST_XDP_HOLDS";

#[test]
fn program_ends_with_a_process_that_is_killed() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    if std::env::var_os(HOLDS).is_some() {
        let _port = open("one", "native");
        eprint!("!");
        loop {
            std::thread::park();
        }
    }
    with_veth("program_ends_with_a_process_that_is_killed", || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "xdp::program_ends_with_a_process_that_is_killed", "--nocapture"])
            .env(HOLDS, "1")
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = [0; 1];
        child.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(said, *b"!");
        assert!(link_shows("one", "xdp"));
        child.kill().unwrap();
        child.wait().unwrap();
        // The kernel may delay the end of a descriptor. The test harness limits the time.
        while link_shows("one", "xdp") {}
        let _ = open("one", "native");
    });
}

#[test]
fn frames_arrive_from_every_receive_queue() {
    let name = "frames_arrive_from_every_receive_queue";
    for mode in MODES {
        with_queues(name, 4, || {
            // A packet socket sends through the queue of its thread's processor.
            let mut packet = Packet::open(&packet::Config::new("one")).unwrap();
            let mut one = open("one", mode);
            let mut other = open("other", mode);
            assert!(other.describe().ends_with("queues: 4"), "{}", other.describe());
            let to = Address::Mac(other.own());
            let processors = sovia_sys::call::cpus_allowed();
            if processors < 2 {
                println!("SKIPPED: {name}: one processor sends by one queue");
            }
            for round in 0..1000u32 {
                crate::common::run_on(round % processors);
                put(&mut packet, &round.to_be_bytes(), &to);
                packet.flush().unwrap();
                assert_eq!(await_frames(&mut other, 1), [round.to_be_bytes()]);
            }
            assert_eq!(poll::probe(other.descriptors().frames, libc::POLLIN), 0);
            for port in [&mut one, &mut other] {
                put(port, b"everyone", &Address::Mac([0xff; 6]));
                assert_eq!(port.flush(), Ok(0));
            }
            for port in [&mut one, &mut other] {
                assert_eq!(await_frames(port, 1), [b"everyone"]);
            }
            assert_eq!(other.counters().received, 1001);
        });
    }
}

#[test]
fn device_that_does_not_exist_or_is_no_ethernet_is_an_error() {
    with_veth("device_that_does_not_exist_or_is_no_ethernet_is_an_error", || {
        for (device, why) in [("none", Errno::ENODEV), ("lo", Errno::EMEDIUMTYPE)] {
            assert_eq!(Xdp::open(&Config::new(device)).unwrap_err().why, why);
        }
        let foreign = Address::Udp("[::1]:1".parse().unwrap());
        let mut one = open("one", "native");
        assert_eq!(one.commit(1, &foreign), Err(Refused::Address));
        assert_eq!(one.counters().refused_address, 1);
    });
}
