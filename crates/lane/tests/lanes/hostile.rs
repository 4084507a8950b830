//! Tests the limits of a peer that breaks the protocol, and of a station that is not a peer.

use crate::lanes::common::{Host, Station, numbered, over_each, packet};
use via::error::ConnectError;
use via::{Vi, ViState};

#[test]
fn only_packets_from_the_peers_addresses_are_taken() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        let station = Station::at(peer);
        let vi = station.vi(1500);
        station.post_recv(&vi, 0, 0);
        station.connect(&vi, own).unwrap();
        assert!(station.told(&vi) > 100);
        station.send(&vi, &packet("10.0.0.3", "10.0.0.1", b"forged"), None);
        station.send(&vi, &packet("fd00::2", "fd00::1", b"forged"), None);
        for garbage in [&b""[..], b"x", &[0x45; 19], &[0x45; 100], &[0x60; 1500], &[0xff; 1500]] {
            station.send(&vi, garbage, None);
        }
        let mut cut = numbered(1, 1, 100);
        cut.pop();
        station.send(&vi, &cut, Some(0xffff_ffff));
        let good = numbered(1, 2, 100);
        station.send(&vi, &good, None);
        assert_eq!(host.received(), good);
        host.counts("the others are counted", |it| {
            (it.foreign, it.malformed, it.received) == (2, 7, 1)
        });
        vi.disconnect();
    });
}

/// The station uses up the lane's receives. Its VI breaks, and the lane serves the station's next VI.
#[test]
fn peer_that_exceeds_its_credits_breaks_only_its_connection() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        let station = Station::at(peer);
        for round in 0..2 {
            let vi = station.vi(4096);
            assert_eq!(station.connect(&vi, own), Err(ConnectError::MaxTransferSize));
            let vi = station.vi(1500);
            // Post no receive for the lane's counts.
            station.connect(&vi, own).unwrap();
            // A send may fail when the connection breaks.
            let sent = (0..100_000).take_while(|_| {
                vi.state() == ViState::Connected
                    && station.try_send(&vi, &numbered(1, 0, 100), None)
            });
            assert!(sent.count() < 100_000);
            crate::lanes::common::until("the connection breaks", || {
                vi.state() != ViState::Connected
            });
            vi.disconnect();
            let vi = station.vi(1500);
            station.post_recv(&vi, 0, 0);
            station.connect(&vi, own).unwrap();
            station.told(&vi);
            let good = packet("10.0.0.2", "10.0.0.1", &[round; 32]);
            station.send(&vi, &good, None);
            while host.received() != good {}
            vi.disconnect();
        }
    });
}

#[test]
fn count_that_cannot_be_ends_the_connection() {
    for (count, bytes) in [(Some(513), &b""[..]), (None, b""), (Some(u32::MAX), b"")] {
        over_each(|[own, peer]| {
            let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
            let station = Station::at(peer);
            let vi = station.vi(1500);
            station.accept_of(&vi, &host, &numbered(0, 0, 100));
            station.send(&vi, bytes, count);
            let mut event = host.event();
            while !event.contains("gone") {
                event = host.event();
            }
            assert_eq!(event, "the peer is gone: the peer sent an invalid count");
            assert_eq!(host.lane.counters().sent, 0);
            crate::lanes::common::until("it is disconnected", || vi.state() == ViState::Error);
            vi.disconnect();
        });
    }
}

#[test]
fn station_that_is_no_peer_is_refused() {
    over_each(|[own, peer]| {
        let host = Host::start(own, peer, &["10.0.0.2/32"], 1500);
        let stranger = match peer.strip_prefix("shm:") {
            Some(name) => format!("shm:{name}-stranger"),
            None => {
                let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                format!("udp:{}", free.local_addr().unwrap())
            }
        };
        let station = Station::at(&stranger);
        for _ in 0..3 {
            let vi = station.vi(1500);
            assert_eq!(station.connect(&vi, own), Err(ConnectError::Rejected));
        }
        host.counts("all are counted", |it| it.strangers == 3);
        assert!(host.event().contains("which is not a peer"), "it is told once");
        assert!(host.events.try_recv().is_err());
    });
}
