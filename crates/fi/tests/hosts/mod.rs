//! Tests of endpoints on two hosts, over EMP.

mod faults;
mod node;

use node::{Bytes, Node, send, two, until};
use sovia_fi::atomic::Code;
use sovia_fi::{Error, flag};

/// Environment variables for each run: faults of the network, and the thread that drives the NIC.
const NETWORKS: [&[(&str, &str)]; 3] = [
    &[],
    &[("FI_SOVIA_PROGRESS", "thread")],
    // One of 50 frames has a fault.
    &[("FI_SOVIA_FAULTS", "4000:7")],
];

const RECEIVE: usize = 1_000_000;

#[test]
fn messages_of_all_lengths_come_whole() {
    for network in NETWORKS {
        let (mut one, mut other) = two(network);
        let lens =
            [0, 1, 40, 41, 1400, 1500, 16384, 16385, 61_440, 500_000, (4 << 20) + 1, 17 << 20];
        for (tag, len) in lens.into_iter().enumerate() {
            let (out, room) = (Bytes::pattern(len, tag), Bytes::zeroed(len + 1));
            // Alternates whether the receive or the message comes first.
            if tag % 2 == 0 {
                other.receive(&room, Some(0), tag as u64, 0);
            }
            send(&mut [&mut one, &mut other], 0, &out, tag as u64, false);
            (0..100).for_each(|_| other.go());
            if tag % 2 == 1 {
                other.receive(&room, None, tag as u64, 0);
            }
            let came = until(&mut [&mut one, &mut other], |nodes| nodes[1].told_of(RECEIVE + tag));
            let came = came.unwrap();
            assert_eq!((came.len, came.tag, came.data), (len, tag as u64, tag as u64 + 1));
            assert_eq!(came.source, 0);
            assert!(room.bytes()[..len] == out.bytes(), "{len}");
            until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(tag)).unwrap();
        }
    }
}

#[test]
fn many_messages_keep_their_order() {
    const COUNT: usize = 2000;
    for network in NETWORKS {
        let (mut one, mut other) = two(network);
        let lens = |i: usize| [8, 8, 3000, 8, 20_000, 100][i % 6];
        let out: Vec<_> = (0..COUNT).map(|i| Bytes::pattern(lens(i), i)).collect();
        let rooms: Vec<_> = (0..COUNT).map(|i| Bytes::zeroed(lens(i))).collect();
        // Each receive takes any message, so messages must complete in the order of the receives.
        for (i, room) in rooms.iter().enumerate().take(COUNT / 2) {
            other.receive(room, None, i as u64, u64::MAX);
        }
        let mut posted = COUNT / 2;
        for (i, bytes) in out.iter().enumerate() {
            until(&mut [&mut one, &mut other], |nodes| {
                match nodes[0].try_send(bytes, 0, i as u64, i % 50 == 0) {
                    Ok(()) => Some(()),
                    Err(Error::AGAIN) => {
                        if posted < COUNT {
                            nodes[1].receive(&rooms[posted], None, posted as u64, u64::MAX);
                            posted += 1;
                        }
                        None
                    }
                    Err(error) => panic!("{error:?}"),
                }
            });
        }
        for (i, room) in rooms.iter().enumerate().skip(posted) {
            other.receive(room, None, i as u64, u64::MAX);
        }
        for (i, room) in rooms.iter().enumerate() {
            let came = until(&mut [&mut one, &mut other], |nodes| nodes[1].told_of(RECEIVE + i));
            assert_eq!(came.unwrap().tag, i as u64);
            assert!(room.bytes() == out[i].bytes(), "{i}");
        }
    }
}

#[test]
fn both_ends_send_long_messages_at_once() {
    const COUNT: usize = 100;
    let (mut one, mut other) = two(&[]);
    let out: Vec<_> = (0..COUNT).map(|i| Bytes::pattern(100_000, i)).collect();
    let rooms: Vec<_> = (0..2 * COUNT).map(|_| Bytes::zeroed(100_000)).collect();
    for i in 0..COUNT {
        one.receive(&rooms[i], None, i as u64, 0);
        other.receive(&rooms[COUNT + i], None, i as u64, 0);
    }
    for (i, bytes) in out.iter().enumerate() {
        send(&mut [&mut one, &mut other], 0, bytes, i as u64, false);
        send(&mut [&mut one, &mut other], 1, bytes, i as u64, false);
    }
    for i in 0..COUNT {
        for end in [0, 1] {
            until(&mut [&mut one, &mut other], |nodes| nodes[end].told_of(RECEIVE + i)).unwrap();
            until(&mut [&mut one, &mut other], |nodes| nodes[end].told_of(i)).unwrap();
        }
        assert!(rooms[i].bytes() == out[i].bytes() && rooms[COUNT + i].bytes() == out[i].bytes());
    }
}

#[test]
fn a_message_longer_than_its_receive_is_cut_and_said() {
    for len in [100, 100_000] {
        let (mut one, mut other) = two(&[]);
        let (out, room) = (Bytes::pattern(len, 0), Bytes::zeroed(len / 2));
        other.receive(&room, None, 1, 0);
        send(&mut [&mut one, &mut other], 0, &out, 1, false);
        let failure =
            until(&mut [&mut one, &mut other], |nodes| nodes[1].told_of(RECEIVE + 1)).unwrap_err();
        assert_eq!((failure.error, failure.excess), (Error::TRUNCATED, len / 2));
        assert!(room.bytes() == out.bytes()[..len / 2]);
        until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(1)).unwrap();
    }
}

#[test]
fn remote_memory_is_written_read_and_changed() {
    for network in NETWORKS {
        let (mut one, mut other) = two(network);
        let region = Bytes::zeroed(300_000);
        other.register(&region);
        for (context, len) in [8, 5000, 300_000].into_iter().enumerate() {
            let (out, back) = (Bytes::pattern(len, context), Bytes::zeroed(len));
            let remote = one.remote(&out, 0, region.address(), context);
            let (endpoint, common) = one.state.endpoint(0).unwrap();
            endpoint.write(common, remote).unwrap();
            until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(context)).unwrap();
            assert!(region.bytes()[..len] == out.bytes());
            let remote = one.remote(&back, 0, region.address(), context);
            let (endpoint, common) = one.state.endpoint(0).unwrap();
            endpoint.read(common, remote).unwrap();
            until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(context)).unwrap();
            assert!(back.bytes() == out.bytes());
        }
        let outside = one.remote(&Bytes::zeroed(8), 0, region.address() + 300_000, 9);
        let (endpoint, common) = one.state.endpoint(0).unwrap();
        endpoint.write(common, outside).unwrap();
        let failure = until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(9)).unwrap_err();
        assert_eq!(failure.error, Error::INVALID);
        let (before, operand) = (Bytes::zeroed(8), Bytes::pattern(8, 3));
        let was = region.bytes()[..8].to_vec();
        // A sum of unsigned 64-bit words.
        let code = Code { op: 2, datatype: 7, fetches: true, compares: false };
        let remote = one.remote(&before, 0, region.address(), 10);
        let (endpoint, common) = one.state.endpoint(0).unwrap();
        endpoint
            .atomic(common, remote, code, &operand.buffer(), &Bytes::zeroed(0).buffer())
            .unwrap();
        let done = until(&mut [&mut one, &mut other], |nodes| nodes[0].told_of(10)).unwrap();
        assert_eq!(done.flags & flag::ATOMIC, flag::ATOMIC);
        assert_eq!(before.bytes(), was);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let sum = word(&was).wrapping_add(word(&operand.bytes()));
        assert_eq!(word(&region.bytes()), sum);
    }
}

#[test]
fn an_endpoint_sends_to_itself() {
    let mut node = Node::new(&[]);
    let own = node.address();
    assert_eq!(node.knows(own), 0);
    for (tag, len) in [10, 100_000].into_iter().enumerate() {
        let (out, room) = (Bytes::pattern(len, 1), Bytes::zeroed(len));
        node.receive(&room, Some(0), tag as u64, 0);
        send(&mut [&mut node], 0, &out, tag as u64, true);
        until(&mut [&mut node], |nodes| nodes[0].told_of(RECEIVE + tag)).unwrap();
        until(&mut [&mut node], |nodes| nodes[0].told_of(tag)).unwrap();
        assert!(room.bytes() == out.bytes());
    }
}

#[test]
fn what_was_sent_arrives_though_the_endpoint_is_closed_at_once() {
    for network in NETWORKS {
        let (mut one, mut other) = two(network);
        let out: Vec<_> = (0..30).map(|i| Bytes::pattern(10_000, i)).collect();
        let rooms: Vec<_> = (0..30).map(|_| Bytes::zeroed(10_000)).collect();
        for (i, room) in rooms.iter().enumerate() {
            other.receive(room, Some(0), i as u64, 0);
        }
        let extra = Bytes::zeroed(1);
        other.receive(&extra, Some(0), 99, 0);
        for (i, bytes) in out.iter().enumerate() {
            send(&mut [&mut one, &mut other], 0, bytes, i as u64, false);
        }
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| drop(one));
            for (i, room) in rooms.iter().enumerate() {
                until(&mut [&mut other], |nodes| nodes[0].told_of(RECEIVE + i)).unwrap();
                assert!(room.bytes() == out[i].bytes());
            }
            // A receive that no message can reach any more fails.
            let failure = until(&mut [&mut other], |nodes| nodes[0].told_of(RECEIVE + 99));
            assert_eq!(failure.unwrap_err().error, Error::GONE);
            closing.join().unwrap();
        });
    }
}
