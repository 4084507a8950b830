//! Bytes that a process leaves to its peer. The peer finds them, each connection has its own, and they begin as zeros.
#![cfg(not(loom))]

use std::time::Duration;
use via::{Bequest, Connection, Nic, Vi, ViAttributes};
use via_shm::{ShmNic, ShmVi};

const LONG: Option<Duration> = Some(Duration::from_secs(10));

fn both(a: &ShmVi, b: &ShmVi) -> [Box<dyn Bequest>; 2] {
    [a.bequest().unwrap(), b.bequest().unwrap()]
}

/// Checks that there are no bytes of an earlier connection, and that each end finds the other's bytes.
fn check([a, b]: [Box<dyn Bequest>; 2]) {
    let len = a.len();
    let mut found = vec![1; len];
    for (mine, theirs, value) in [(&a, &b, 7u8), (&b, &a, 9)] {
        assert!((0..via::bequest::WORDS).all(|word| theirs.published(word) == 0));
        assert!(theirs.read(0, &mut found) && found.iter().all(|&byte| byte == 0));
        assert!(mine.write(0, &vec![value; len]) && !mine.write(1, &vec![value; len]));
        mine.publish(3, u64::from(value));
        assert_eq!(theirs.published(3), u64::from(value));
        assert!(theirs.read(0, &mut found) && found.iter().all(|&byte| byte == value));
        assert!(!theirs.read(len, &mut [0]) && !theirs.read(usize::MAX, &mut [0; 2]));
    }
}

#[test]
fn every_connection_begins_with_nothing_left() {
    let nic = ShmNic::open(&format!("bequest-{}", std::process::id())).unwrap();
    let [a, b] = [(); 2].map(|()| nic.create_vi(ViAttributes::default()).unwrap());
    assert!(a.bequest().is_none(), "not connected");
    let [here, there] = [nic.address(b"a"), nic.address(b"b")];
    for round in 0..6 {
        if round % 2 == 0 {
            std::thread::scope(|s| {
                s.spawn(|| nic.connect_wait(&there, LONG).unwrap().accept(&b).unwrap());
                while a.connect_request(&here, &there, LONG).is_err() {}
            });
        } else {
            a.connect_peer_request(&here, &there, LONG).unwrap();
            b.connect_peer_request(&there, &here, LONG).unwrap();
            a.connect_peer_wait().unwrap();
            b.connect_peer_wait().unwrap();
        }
        check(both(&a, &b));
        a.disconnect();
        b.disconnect();
        assert!(a.bequest().is_none());
    }
}
