//! Tests of packet sockets on a veth pair.

use crate::common::{are_accounted_for, await_frames, ip, only_ours_come, put, with_veth};
use sovia_port::packet::{Config, Packet};
use sovia_port::{Address, Error, Port, Refused};
use sovia_sys::Errno;

fn open(device: &str) -> Packet {
    Packet::open(&Config::new(device)).unwrap()
}

/// Returns ports on both devices, and the address of the second port.
fn pair() -> (Packet, Packet, Address) {
    let (one, other) = (open("one"), open("other"));
    let to = Address::Mac(other.own());
    (one, other, to)
}

#[test]
fn frames_of_any_lengths_arrive_in_order_with_their_senders_address() {
    with_veth("frames_of_any_lengths_arrive_in_order_with_their_senders_address", || {
        let (mut one, mut other, to) = pair();
        let lens = [0, 1, 2, 3, 46, 100, 1499, 1500, 1500, 1500, 7, 0];
        let frames: Vec<Vec<u8>> = lens.iter().zip(1u8..).map(|(&len, i)| vec![i; len]).collect();
        for frame in &frames {
            put(&mut one, frame, &to);
        }
        assert_eq!(one.flush(), Ok(0));
        assert_eq!(await_frames(&mut other, frames.len()), frames);
        assert_eq!(one.counters().sent, frames.len() as u64);

        put(&mut other, b"back", &Address::Mac(one.own()));
        assert_eq!(other.flush(), Ok(0));
        sovia_sys::poll::wait(one.descriptors().frames, libc::POLLIN);
        let mut from = None;
        assert_eq!(one.receive(&mut |sender, _| from = Some(*sender)), Ok(1));
        assert_eq!(from, Some(to));
    });
}

#[test]
fn full_ring_counts_every_lost_frame_and_never_blocks() {
    with_veth("full_ring_counts_every_lost_frame_and_never_blocks", || {
        let (mut one, mut other, to) = pair();
        let mut accepted = 0u32;
        for _ in 0..200 {
            while let Some(slot) = one.slot() {
                slot[..4].copy_from_slice(&accepted.to_be_bytes());
                one.commit(1000, &to).unwrap();
                accepted += 1;
            }
            while one.flush().unwrap() > 0 {
                sovia_sys::poll::wait(one.descriptors().room, libc::POLLOUT);
            }
        }
        are_accounted_for(&mut one, &mut other, accepted);

        // The ring works again.
        put(&mut one, b"again", &to);
        one.flush().unwrap();
        assert_eq!(await_frames(&mut other, 1), [b"again"]);
    });
}

#[test]
fn frames_of_another_ether_type_or_for_another_address_do_not_come() {
    with_veth("frames_of_another_ether_type_or_for_another_address_do_not_come", || {
        let (mut one, mut other, to) = pair();
        let foreign = Config { ether_type: 0x88b6, ..Config::new("one") };
        let mut foreign = Packet::open(&foreign).unwrap();
        put(&mut foreign, b"another type", &to);
        foreign.flush().unwrap();
        only_ours_come(&mut one, &mut other, &to);
    });
}

#[test]
fn mtu_that_changes_is_seen_and_kept_to() {
    with_veth("mtu_that_changes_is_seen_and_kept_to", || {
        let config = Config { room: 9000, ..Config::new("one") };
        let mut one = Packet::open(&config).unwrap();
        let mut other = Packet::open(&Config { room: 9000, ..Config::new("other") }).unwrap();
        let to = Address::Mac(other.own());
        assert_eq!(one.frame_max(), 1500);
        for mtu in [4000, 9000, 60_000, 1000] {
            ip(&format!("link set one mtu {mtu}"));
            ip(&format!("link set other mtu {mtu}"));
            let news = one.descriptors().news.unwrap();
            sovia_sys::poll::wait(news, libc::POLLIN);
            one.check().unwrap();
            let max = mtu.min(9000);
            assert_eq!(one.frame_max(), max);
            assert_eq!(one.commit(max + 1, &to), Err(Refused::Length));
            put(&mut one, &vec![3; max], &to);
            one.flush().unwrap();
            assert_eq!(await_frames(&mut other, 1), [vec![3; max]]);
        }
        assert_eq!(one.counters().refused_length, 4);
    });
}

#[test]
fn frame_that_the_mtu_no_longer_allows_is_counted_and_the_mtu_seen() {
    with_veth("frame_that_the_mtu_no_longer_allows_is_counted_and_the_mtu_seen", || {
        let (mut one, mut other, to) = pair();
        put(&mut one, &[1; 1400], &to);
        put(&mut one, &[2; 100], &to);
        ip("link set one mtu 1000");
        assert_eq!(one.flush(), Ok(0));
        let counters = one.counters();
        assert_eq!((counters.sent, counters.unsendable), (1, 1));
        assert_eq!(counters.why_unsendable, Some(Errno::EMSGSIZE));
        assert_eq!(one.frame_max(), 1000);
        assert_eq!(await_frames(&mut other, 1), [[2; 100]]);
    });
}

#[test]
fn frame_longer_than_a_slot_is_counted_as_malformed() {
    with_veth("frame_longer_than_a_slot_is_counted_as_malformed", || {
        let mut other = open("other");
        ip("link set one mtu 9000");
        ip("link set other mtu 9000");
        let mut one = open("one");
        let to = Address::Mac(other.own());
        put(&mut one, &[1; 9000], &to);
        put(&mut one, &[2; 9], &to);
        one.flush().unwrap();
        assert_eq!(await_frames(&mut other, 1), [[2; 9]]);
        assert_eq!(other.counters().malformed, 1);
    });
}

#[test]
fn device_that_is_down_is_an_error_until_up_again() {
    with_veth("device_that_is_down_is_an_error_until_up_again", || {
        let (mut one, mut other, to) = pair();
        ip("link set one down");
        put(&mut one, b"kept", &to);
        assert_eq!(one.flush(), Err(Error::Down));
        assert_eq!(one.check(), Err(Error::Down));
        ip("link set one up");
        assert_eq!(one.check(), Ok(()));
        assert_eq!(one.flush(), Ok(0));
        assert_eq!(await_frames(&mut other, 1), [b"kept"]);
    });
}

#[test]
fn device_that_is_deleted_wakes_its_ports_with_a_typed_error() {
    with_veth("device_that_is_deleted_wakes_its_ports_with_a_typed_error", || {
        let (mut one, mut other, to) = pair();
        put(&mut one, b"late", &to);
        ip("link del one");
        for port in [&mut one, &mut other] {
            sovia_sys::poll::wait(port.descriptors().news.unwrap(), libc::POLLIN);
            assert_eq!(port.check(), Err(Error::Gone));
        }
        assert_eq!(one.flush(), Err(Error::Gone));
        assert_eq!(one.receive(&mut |_, _| panic!("nothing was sent")), Ok(0));
    });
}

#[test]
fn device_that_does_not_exist_or_is_no_ethernet_is_an_error() {
    with_veth("device_that_does_not_exist_or_is_no_ethernet_is_an_error", || {
        for (device, why) in [("none", Errno::ENODEV), ("lo", Errno::EMEDIUMTYPE)] {
            assert_eq!(Packet::open(&Config::new(device)).unwrap_err().why, why);
        }
        let foreign = Address::Udp("[::1]:1".parse().unwrap());
        assert_eq!(open("one").commit(1, &foreign), Err(Refused::Address));
    });
}
