//! Tests of partitions of the network.

use crate::common::{Choices, Errors, RELIABLE, connect, errors, open, pair, seeds};
use core::time::Duration;
use via::error::ConnectError;
use via::{Cause, ErrorCode, Status, Vi, ViState};
use via_sim::{Change, Config, Link, Network};

#[test]
fn a_partition_breaks_reliable_connections() {
    seeds(150, |seed| {
        let mut choices = Choices::new(seed);
        let fault = choices.below(15) as f64 / 100.0;
        let network = Network::new(seed, Config::default().over(Link::faulty(fault)));
        let [(a_nic, a), (b_nic, b)] = pair(&network, 1 << 20, open(RELIABLE[choices.below(2)]));
        let (told_a, told_b) = (Errors::of(&a_nic), Errors::of(&b_nic));
        const LEN: usize = 9_000;
        for n in 0..20 {
            b.post_recv(n, n * LEN, LEN);
            a.post_recv(100 + n, 0, 10);
        }
        for n in 0..20 {
            let place = 30 * LEN + n * LEN;
            a.write(place, &[n as u8; LEN]);
            a.post_send(n, place, LEN, None);
        }
        let at = network.now().after(Duration::from_nanos(choices.below(200_000) as u64));
        network.change(at, Change::Partition([a_nic.node()].into()));
        network.run();
        // The first messages arrived. The sender does not know of more than these.
        let got = b.received();
        assert!(got.iter().enumerate().all(|(n, done)| {
            done.result() == Ok(LEN as u32) && b.bytes(n * LEN, LEN) == vec![n as u8; LEN]
        }));
        let sent = errors(&a.sent());
        let good = sent.iter().take_while(|status| status.is_empty()).count();
        assert_eq!(sent.len(), 20);
        assert!(good <= got.len());
        if good == 20 {
            // All transfers were complete before the partition, so neither end has noticed it.
            assert_eq!(a.vi.state(), ViState::Connected);
            return;
        }
        assert_eq!(sent[good], Status::TRANSPORT_ERROR);
        assert!(sent[good + 1..].iter().all(|&status| status == Status::DESC_FLUSHED_ERROR));
        assert_eq!(errors(&a.received()), [Status::DESC_FLUSHED_ERROR; 20]);
        assert_eq!((a.vi.state(), a.vi.cause()), (ViState::Error, Some(Cause::PeerDied)));
        let codes: Vec<_> = told_a.take().iter().map(|error| error.code).collect();
        assert_eq!(codes, [ErrorCode::ConnLost]);
        // The other side has nothing to send, so it does not notice the partition until it sends.
        assert_eq!((b.vi.state(), told_b.take()), (ViState::Connected, vec![]));
        b.post_send(200, 0, 10, None);
        network.run();
        assert_eq!(errors(&b.sent()), [Status::TRANSPORT_ERROR]);
        assert_eq!(told_b.take()[0].code, ErrorCode::ConnLost);
        // After healing and reconnecting, the ends work as before.
        network.change(network.now(), Change::Heal);
        a.vi.disconnect();
        b.vi.disconnect();
        network.run();
        drop((a.received(), b.received()));
        connect(&network, (&a_nic, &a), (&b_nic, &b));
        b.post_recv(0, 0, LEN);
        a.post_send(0, 0, LEN, None);
        network.run();
        assert_eq!((a.sent().len(), b.received()[0].result()), (1, Ok(LEN as u32)));
    });
}

/// A peer that still believes in the connection after the partition is notified that it is over.
#[test]
fn a_partition_that_only_one_side_noticed() {
    let network = Network::new(5, Config::default());
    let [(a_nic, a), (_, b)] = pair(&network, 1000, open(RELIABLE[0]));
    network.change(network.now(), Change::Partition([a_nic.node()].into()));
    b.post_recv(0, 0, 10);
    a.post_send(0, 0, 10, None);
    network.run();
    assert_eq!((a.vi.state(), b.vi.state()), (ViState::Error, ViState::Connected));
    network.change(network.now(), Change::Heal);
    b.post_send(1, 0, 10, None);
    network.run();
    assert_eq!((b.vi.state(), b.vi.cause()), (ViState::Error, Some(Cause::PeerDied)));
    assert_eq!(errors(&b.sent()), [Status::TRANSPORT_ERROR]);
    assert_eq!(errors(&b.received()), [Status::DESC_FLUSHED_ERROR]);
}

/// A partition that is shorter than the limit of retransmissions is only a pause.
#[test]
fn a_short_partition_is_a_pause() {
    let network = Network::new(5, Config::default());
    let [(a_nic, a), (_, b)] = pair(&network, 1000, open(RELIABLE[0]));
    let now = network.now();
    network.change(now, Change::Partition([a_nic.node()].into()));
    network.change(now.after(Duration::from_millis(100)), Change::Heal);
    b.post_recv(0, 0, 10);
    a.post_send(0, 0, 10, None);
    network.run();
    assert_eq!(
        (errors(&a.sent()), errors(&b.received())),
        (vec![Status::empty()], vec![Status::empty()])
    );
}

#[test]
fn no_node_is_reached_across_a_partition() {
    let network = Network::new(5, Config::default());
    let [(a_nic, a), (b_nic, _b)] = pair(&network, 1000, open(RELIABLE[0]));
    a.vi.disconnect();
    network.run();
    network.change(network.now(), Change::Partition([a_nic.node()].into()));
    let address = b_nic.address(b"server");
    let _listener = b_nic.listen(&address).unwrap();
    let error = a.vi.connect_request(&a_nic.address(b"x"), &address, None).unwrap_err();
    assert!(matches!(error, ConnectError::NotReachable(_)), "{error}");
    let short = Some(Duration::from_millis(10));
    let error = a.vi.connect_request(&a_nic.address(b"x"), &address, short).unwrap_err();
    assert_eq!((error, a.vi.state()), (ConnectError::Timeout, ViState::Idle));
}
