//! Tests of the packets that lanes drop and count.

use crate::lanes::common::{Host, numbered, over_each, packet};

#[test]
fn packets_for_many_or_for_no_peer_are_dropped() {
    over_each(|places| {
        let [a, b] = Host::pair_that_has_met(places, 1500);
        for destination in ["224.0.0.1", "255.255.255.255"] {
            a.send(packet("10.0.0.1", destination, b"all"));
        }
        a.send(packet("fd00::1", "ff02::1", b"all"));
        for destination in ["10.0.0.3", "10.0.0.255", "10.0.0.1"] {
            a.send(packet("10.0.0.1", destination, b"who"));
        }
        a.counts("all are counted", |it| (it.for_many, it.no_peer) == (3, 3));
        assert_eq!((a.lane.counters().sent, b.lane.counters().received), (1, 1));
    });
}

#[test]
fn what_is_no_packet_or_too_long_is_dropped() {
    over_each(|places| {
        let [a, b] = Host::pair_that_has_met(places, 1500);
        let good = numbered(0, 1, 100);
        a.send(numbered(0, 2, 1481));
        a.send(good[..50].to_vec());
        a.send(vec![0; 40]);
        a.send(good.clone());
        assert_eq!(b.received(), good);
        a.counts("the others are counted", |it| (it.odd, it.sent) == (3, 2));
    });
}

/// A peer without a lane is reported once, although each packet requests a connection.
#[test]
fn absent_peer_is_reported_once() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        // Open the peer's NIC without a lane, so that the NIC answers the requests.
        let _nic = sovia_nic::AnyNic::open_at(peer).unwrap();
        for number in 0..5 {
            host.send(numbered(0, number, 100));
            host.counts("it is dropped", |it| it.unreachable > u64::from(number));
        }
        let event = host.event();
        assert_eq!(
            event,
            "cannot connect to the peer: no lane is up at the peer; packets for this peer are dropped"
        );
        assert!(host.events.try_recv().is_err());
    });
}

#[test]
fn lanes_with_two_mtus_say_so() {
    over_each(|[a, b]| {
        let a =
            (Host::start(a, b, &["10.0.0.2/32"], 9000), Host::start(b, a, &["10.0.0.1/32"], 1500))
                .0;
        // Until the other lane accepts connections, the reason is another one.
        let mut sent = 0;
        loop {
            a.send(numbered(0, 1, 100));
            sent += 1;
            a.counts("it is dropped", |it| it.unreachable == sent);
            if a.events
                .try_iter()
                .any(|it| it.to_string().contains("the peer's lane has another MTU"))
            {
                break;
            }
        }
    });
}
