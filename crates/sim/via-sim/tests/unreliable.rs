//! Tests of the unreliable level: a message arrives at most once and complete, and never ends the connection.

use crate::common::{Choices, Errors, errors, open, pair, seeds};
use std::collections::BTreeSet;
use via::{Control, ErrorCode, Reliability, Resource, Status, Vi, ViState};
use via_sim::{Config, Link, Network};

const SLOT: usize = 20_000;

#[test]
fn at_most_once_and_whole() {
    seeds(200, |seed| {
        let mut choices = Choices::new(seed);
        let probability = choices.below(30) as f64 / 100.0;
        let network = Network::new(seed, Config::default().over(Link::faulty(probability)));
        let [(_, a), (b_nic, b)] = pair(&network, 80 * SLOT, open(Reliability::UNRELIABLE));
        let reports = Errors::of(&b_nic);
        let mut sent = Vec::new();
        let (mut posted, mut got) = (0, BTreeSet::new());
        for _ in 0..40 {
            // Sometimes there are too few receives.
            for _ in 0..choices.below(3) {
                b.post_recv(posted % 80, posted % 80 * SLOT, SLOT);
                posted += 1;
            }
            let n = sent.len();
            let limit = [10, SLOT - 7][choices.below(2)];
            let len = 8 + choices.below(limit);
            let mut message = choices.bytes(len);
            message[..8].copy_from_slice(&(n as u64).to_le_bytes());
            a.write(n * SLOT, &message);
            a.post_send(n, n * SLOT, len, None);
            sent.push(message);
            for _ in 0..choices.below(20) {
                network.step();
            }
        }
        network.run();
        assert_eq!(errors(&a.sent()), vec![Status::empty(); sent.len()]);
        for done in b.received() {
            let len = done.result().unwrap() as usize;
            let bytes =
                b.memory.descriptor_at(done.descriptor.address).unwrap().segment(0).unwrap();
            let at = (bytes.address - b.data(0, 1).address) as usize;
            let bytes = b.bytes(at, len);
            let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert!(got.insert(n), "message {n} came twice");
            assert!(bytes == sent[n], "message {n} is another");
        }
        let empty = reports.take();
        assert!(empty.iter().all(|error| error.code == ErrorCode::RecvqEmpty));
        if probability == 0.0 {
            assert_eq!(got.len() + empty.len(), sent.len(), "something was lost in silence");
        }
        assert_eq!((a.vi.state(), b.vi.state()), (ViState::Connected, ViState::Connected));
    });
}

#[test]
fn errors_leave_an_unreliable_vi_connected() {
    let network = Network::new(1, Config::default());
    let [(_, a), (b_nic, b)] = pair(&network, 10_000, open(Reliability::UNRELIABLE));
    let reports = Errors::of(&b_nic);
    let run = |n| {
        network.run();
        let done = (errors(&a.sent()), errors(&b.received()));
        assert_eq!((a.vi.state(), b.vi.state()), (ViState::Connected, ViState::Connected), "{n}");
        (done, reports.take())
    };
    // There is no receive.
    a.post_send(0, 0, 8, None);
    let (done, told) = run(1);
    assert_eq!(done, (vec![Status::empty()], vec![]));
    assert_eq!((told[0].code, told[0].resource), (ErrorCode::RecvqEmpty, Resource::Vi));
    // The message is too long: the receive reports an error, and no byte is written.
    b.post_recv(0, 0, 7);
    a.write(0, &[1; 8]);
    a.post_send(0, 0, 8, None);
    assert_eq!(run(2), ((vec![Status::empty()], vec![Status::LENGTH_ERROR]), vec![]));
    assert_eq!(b.bytes(0, 8), [0; 8]);
    // One send has memory that does not belong to the VI, and another descriptor is invalid.
    let nowhere = via::DataSegment { handle: 0, ..a.data(0, 8) };
    let descriptor = a.memory.descriptor_at(a.place(0).address).unwrap();
    descriptor.prepare(&[nowhere], None).unwrap();
    a.vi.post_send(a.place(0)).unwrap();
    a.post_rdma(1, Control::OP_RDMAREAD, b.remote(0), (0, 8), None);
    a.post_send(2, 0, 8, Some(1));
    b.post_recv(0, 0, 8);
    let ((sent, received), told) = run(3);
    assert_eq!(sent, [Status::PROTECTION_ERROR, Status::FORMAT_ERROR, Status::empty()]);
    assert_eq!((received, told), (vec![Status::empty()], vec![]));
    // One RDMA write is allowed, and the other is not.
    a.post_rdma(0, Control::OP_RDMAWRITE, b.remote(100), (0, 8), None);
    let beyond = via::RemoteSegment { handle: 0, ..b.remote(100) };
    a.post_rdma(1, Control::OP_RDMAWRITE, beyond, (0, 8), None);
    let ((sent, received), told) = run(4);
    assert_eq!((sent, received), (vec![Status::empty(); 2], vec![]));
    assert_eq!(b.bytes(100, 8), [1; 8]);
    let codes: Vec<_> = told.iter().map(|error| (error.code, error.operation)).collect();
    assert_eq!(codes, [(ErrorCode::RdmawProt, Control::OP_RDMAWRITE)]);
    // A partition does not end the connection, but a disconnect does.
    network.change(network.now(), via_sim::Change::Partition([b_nic.node()].into()));
    a.post_send(0, 0, 8, None);
    assert_eq!(run(5), ((vec![Status::empty()], vec![]), vec![]));
    network.change(network.now(), via_sim::Change::Heal);
    network.run();
    a.vi.disconnect();
    network.run();
    assert_eq!(b.vi.state(), ViState::Error);
    assert_eq!(reports.take()[0].code, ErrorCode::ConnLost);
}
