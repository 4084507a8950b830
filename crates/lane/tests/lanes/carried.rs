//! Tests of the packets that lanes carry.

use crate::lanes::common::{Host, Station, numbered, over_each, packet};
use via::Vi;

#[test]
fn packets_of_both_versions_arrive_in_both_directions() {
    over_each(|places| {
        let [a, b] = Host::pair_that_has_met(places, 1500);
        for [one, other] in [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]] {
            for len in [0, 1, 1400] {
                let payload = vec![7; len];
                let [out, back] = [packet(one, other, &payload), packet(other, one, &payload)];
                a.send(out.clone());
                assert_eq!(b.received(), out);
                b.send(back.clone());
                assert_eq!(a.received(), back);
            }
        }
        for host in [&a, &b] {
            host.counts("these and the first", |it| (it.sent, it.received) == (7, 7));
        }
    });
}

#[test]
fn longest_packets_arrive() {
    over_each(|places| {
        for (mtu, places) in [1280, 9000, 65535].iter().zip([places; 3]) {
            let places = places.each_ref().map(|place| match place.split_once("shm:") {
                Some((_, name)) => format!("shm:{name}-{mtu}"),
                None => {
                    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                    format!("udp:{}", free.local_addr().unwrap())
                }
            });
            let [a, b] = Host::pair_that_has_met(&places, *mtu);
            let longest = numbered(0, 1, mtu - 20);
            assert_eq!(longest.len(), *mtu);
            a.send(longest.clone());
            assert_eq!(b.received(), longest);
        }
    });
}

/// Sends many times as many packets as there are receives. All packets counted as sent arrive in order.
#[test]
fn what_is_sent_arrives_in_order() {
    over_each(|places| {
        let hosts = Host::pair_that_has_met(places, 1500);
        let many = 20_000;
        for (from, host) in hosts.iter().enumerate() {
            (0..many).for_each(|number| host.send(numbered(from, number, number as usize % 1400)));
        }
        for host in &hosts {
            host.counts("each packet is sent or dropped", |it| {
                it.sent + it.no_room == u64::from(many) + 1
            });
        }
        for (to, host) in hosts.iter().enumerate() {
            let sent = hosts[1 - to].lane.counters().sent;
            let mut last = None;
            for _ in 1..sent {
                let bytes = host.received();
                let number = u32::from_be_bytes(*bytes[20..].first_chunk().unwrap());
                assert_eq!(bytes, numbered(1 - to, number, number as usize % 1400));
                assert!(last.is_none_or(|last| last < number), "{number} after {last:?}");
                last = Some(number);
            }
            host.counts("no more than that", |it| it.received == sent && it.malformed == 0);
        }
    });
}

/// The first packets wait for the connection. Packets beyond the peer's receives wait for more receives.
#[test]
fn packets_wait_until_the_peer_has_receives_for_them() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        let station = Station::at(peer);
        let vi = station.vi(1500);
        (0..8).for_each(|slot| station.post_recv(&vi, slot, 1500));
        let expected: Vec<_> = (0..8).map(|number| numbered(0, number, 100)).collect();
        station.accept_of(&vi, &host, &expected[0]);
        for packet in &expected[1..] {
            host.send(packet.clone());
        }
        assert_eq!(host.lane.counters().sent, 0);
        // First allow three packets, then the others.
        station.send(&vi, b"", Some(3));
        for (slot, packet) in expected.iter().enumerate().take(3) {
            assert_eq!(station.received(&vi, slot), *packet);
        }
        host.counts("three are sent", |it| it.sent == 3);
        station.send(&vi, b"", Some(8));
        for (slot, packet) in expected.iter().enumerate().skip(3) {
            assert_eq!(station.received(&vi, slot), *packet);
        }
        vi.disconnect();
    });
}

#[test]
fn peer_that_has_gone_is_found_again_by_the_next_packet() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        let station = Station::at(peer);
        for round in 0..3 {
            let vi = station.vi(1500);
            station.post_recv(&vi, 0, 1500);
            station.accept_of(&vi, &host, &numbered(0, round, 100));
            station.send(&vi, b"", Some(1));
            assert_eq!(station.received(&vi, 0), numbered(0, round, 100));
            vi.disconnect();
            let mut event = host.event();
            if event.contains("not there") {
                event = host.event();
            }
            assert_eq!(event, "the peer is connected");
            assert_eq!(host.event(), "the peer is gone: the peer has disconnected");
        }
    });
}
