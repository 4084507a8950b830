//! Tests of VIs that find each other or fail to.

use crate::common::{Choices, End, RELIABLE, open, seeds, until};
use core::time::Duration;
use via::error::ConnectError;
use via::{Connection, Nic, Reliability, Vi, ViAttributes, ViState};
use via_sim::{Config, Link, Network};

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// In spite of lost and repeated frames, there is exactly one connection for each accepted request.
#[test]
fn requests_survive_a_bad_network() {
    seeds(200, |seed| {
        let mut choices = Choices::new(seed);
        let fault = choices.below(25) as f64 / 100.0;
        let network = Network::new(seed, Config::default().over(Link::faulty(fault)));
        let [a_nic, b_nic] = ["a", "b"].map(|name| network.nic(name));
        let address = b_nic.address(b"server");
        let make = |nic: &_| {
            End::new(nic, 64, ViAttributes { max_transfer_size: 64, ..open(RELIABLE[0]) })
        };
        for round in 0..10 {
            let (a, b) = (make(&a_nic), make(&b_nic));
            let request = || a.vi.request(&a_nic.address(b"c"), &address, LONG).unwrap();
            request();
            if choices.below(3) == 0 {
                // No listener waits yet.
                let error = until(&network, || a.vi.request_done()).unwrap_err();
                assert_eq!(error, ConnectError::NoMatch, "round {round}");
                request();
            }
            let listener = b_nic.listen(&address).unwrap();
            let mut connection = until(&network, || {
                if let Some(result) = a.vi.request_done() {
                    // The request came before the listener. A late duplicate of it must have no effect.
                    assert_eq!(result.unwrap_err(), ConnectError::NoMatch);
                    request();
                }
                listener.poll()
            });
            if choices.below(4) == 0 {
                connection.reject();
                let error = until(&network, || a.vi.request_done()).unwrap_err();
                assert_eq!((error, a.vi.state()), (ConnectError::Rejected, ViState::Idle));
                let listener = b_nic.listen(&address).unwrap();
                request();
                connection = until(&network, || listener.poll());
            }
            assert_eq!(connection.remote_address(), &a_nic.address(b"c"));
            connection.accept(&b.vi).unwrap();
            until(&network, || a.vi.request_done()).unwrap();
            a.post_recv(0, 0, 8);
            b.post_recv(0, 0, 8);
            a.post_send(1, 0, 8, None);
            b.post_send(1, 0, 8, None);
            network.run();
            for end in [&a, &b] {
                assert_eq!((end.received()[0].result(), end.sent()[0].result()), (Ok(8), Ok(8)));
            }
        }
        network.run();
        assert_eq!(network.connection_ends(), 0);
    });
}

/// Two peers meet if both are there: both at once, one long before the other, or after one has given up.
#[test]
fn peers_meet() {
    seeds(300, |seed| {
        let mut choices = Choices::new(seed);
        let fault = choices.below(20) as f64 / 100.0;
        let network = Network::new(seed, Config::default().over(Link::faulty(fault)));
        let nics = ["a", "b"].map(|name| network.nic(name));
        let ends = [0, 1].map(|i| End::new(&nics[i], 64, open(RELIABLE[1])));
        let addresses = [nics[0].address(b"left"), nics[1].address(b"right")];
        let first = choices.below(2);
        let order = [first, 1 - first];
        let request = |end: &End, i: usize, timeout| {
            end.vi.connect_peer_request(&addresses[i], &addresses[1 - i], timeout).unwrap();
        };
        if choices.below(3) == 0 {
            // The first peer gives up before the second comes, and tries again.
            request(&ends[first], first, Some(Duration::from_micros(100)));
            network.run();
            let result = ends[first].vi.connect_peer_done();
            assert_eq!(result, Some(Err(ConnectError::Timeout)));
            assert_eq!(ends[first].vi.state(), ViState::Idle);
        }
        for i in order {
            request(&ends[i], i, LONG);
            assert_eq!(ends[i].vi.state(), ViState::ConnectPending);
            // Steps would reach the timeouts, so only a short time passes.
            network.run_for(Duration::from_micros([1, 60, 3_000][choices.below(3)]));
        }
        for i in order {
            let theirs = ends[i].vi.connect_peer_wait().unwrap();
            assert_eq!((theirs.reliability, theirs.ptag), (RELIABLE[1], None));
            assert!(matches!(ends[i].vi.connect_peer_done(), Some(Err(ConnectError::State(_)))));
            ends[i].post_recv(0, 0, 8);
        }
        for end in &ends {
            end.post_send(1, 0, 8, None);
        }
        network.run();
        for end in &ends {
            assert_eq!((end.received()[0].result(), end.sent()[0].result()), (Ok(8), Ok(8)));
        }
    });
}

#[test]
fn peers_that_do_not_match_are_both_told() {
    for first in 0..2 {
        let network = Network::new(7, Config::default());
        let nics = ["a", "b"].map(|name| network.nic(name));
        let small = ViAttributes { max_transfer_size: 100, ..open(RELIABLE[0]) };
        let ends = [End::new(&nics[0], 64, open(RELIABLE[0])), End::new(&nics[1], 64, small)];
        let addresses = [nics[0].address(b"x"), nics[1].address(b"x")];
        for i in [first, 1 - first] {
            let (local, remote) = (&addresses[i], &addresses[1 - i]);
            ends[i].vi.connect_peer_request(local, remote, LONG).unwrap();
            network.run_for(Duration::from_millis(1));
        }
        for end in &ends {
            let error = end.vi.connect_peer_wait().unwrap_err();
            assert_eq!((error, end.vi.state()), (ConnectError::MaxTransferSize, ViState::Idle));
        }
    }
}

/// Many pairs meet through the same two addresses at once.
#[test]
fn many_peers_at_one_address_meet_in_pairs() {
    seeds(30, |seed| {
        let network = Network::new(seed, Config::default().over(Link::faulty(0.1)));
        let nics = ["a", "b"].map(|name| network.nic(name));
        let addresses = [nics[0].address(b"x"), nics[1].address(b"x")];
        let ends: Vec<_> = (0..20).map(|n| End::new(&nics[n % 2], 64, open(RELIABLE[0]))).collect();
        for (n, end) in ends.iter().enumerate() {
            let (local, remote) = (&addresses[n % 2], &addresses[1 - n % 2]);
            end.vi.connect_peer_request(local, remote, LONG).unwrap();
        }
        for end in &ends {
            end.vi.connect_peer_wait().unwrap();
            end.post_recv(0, 0, 8);
        }
        ends.iter().for_each(|end| end.post_send(1, 0, 8, None));
        network.run();
        assert!(ends.iter().all(|end| end.received().len() == 1));
    });
}

#[test]
fn parameters_and_states_are_checked() {
    let network = Network::new(7, Config::default());
    let [a, b] = ["a", "b"].map(|name| network.nic(name));
    let end = End::new(&a, 64, open(RELIABLE[0]));
    let (here, there) = (a.address(b"h"), b.address(b"t"));
    let vi = &end.vi;
    let invalid = |result: Result<(), ConnectError>| {
        assert!(matches!(result, Err(ConnectError::InvalidParameter(_))), "{result:?}");
    };
    invalid(vi.connect_peer_request(&here, &there, Some(Duration::ZERO)));
    invalid(vi.connect_peer_request(&there, &here, LONG));
    invalid(vi.connect_peer_request(&here, &here, LONG));
    invalid(vi.connect_peer_request(&here.with_discriminator(&[1; 65]), &there, LONG));
    invalid(vi.request(&here, &there.with_discriminator(&[1; 65]), LONG));
    assert!(a.listen(&there).is_err());
    let nowhere = via::NetAddress::new(b"nowhere", b"x");
    assert_eq!(vi.connect_request(&here, &nowhere, LONG), Err(ConnectError::NoMatch));

    // During an attempt the VI is not idle, and a disconnect ends the attempt.
    vi.connect_peer_request(&here, &there, LONG).unwrap();
    assert!(matches!(vi.request(&here, &there, LONG), Err(ConnectError::State(_))));
    assert!(vi.set_attributes(open(RELIABLE[1])).is_err());
    vi.disconnect();
    assert!(matches!(vi.connect_peer_done(), Some(Err(ConnectError::State(_)))));
    assert_eq!(vi.state(), ViState::Idle);
    vi.set_attributes(open(Reliability::UNRELIABLE)).unwrap();
    assert_eq!(vi.attributes().reliability, Reliability::UNRELIABLE);
    let rdma_read = ViAttributes { enable_rdma_read: true, ..open(Reliability::UNRELIABLE) };
    assert!(vi.set_attributes(rdma_read).is_err());

    // A request that has been given up is gone for a waiting listener. It fails for a listener that accepts it late.
    let listener = b.listen(&there).unwrap();
    vi.request(&here, &there, Some(Duration::from_millis(1))).unwrap();
    let connection = until(&network, || listener.poll());
    network.run();
    assert_eq!(vi.request_done(), Some(Err(ConnectError::Timeout)));
    let other = End::new(&b, 64, open(Reliability::UNRELIABLE));
    assert_eq!(connection.accept(&other.vi).unwrap_err().error, ConnectError::Timeout);
    assert_eq!(other.vi.state(), ViState::Idle);

    // Reliability levels must match.
    let listener = b.listen(&there).unwrap();
    vi.request(&here, &there, LONG).unwrap();
    other.vi.set_attributes(open(RELIABLE[0])).unwrap();
    let connection = until(&network, || listener.poll());
    assert_eq!(connection.accept(&other.vi).unwrap_err().error, ConnectError::Reliability);
    assert_eq!(until(&network, || vi.request_done()), Err(ConnectError::Reliability));

    // No event can end this wait, and it must not hang.
    assert_eq!(b.connect_wait(&there, None).err(), Some(ConnectError::Timeout));
    let before = network.now();
    let short = Some(Duration::from_millis(3));
    assert_eq!(b.connect_wait(&there, short).err(), Some(ConnectError::Timeout));
    assert_eq!(network.now().since(before), Duration::from_millis(3));
}
