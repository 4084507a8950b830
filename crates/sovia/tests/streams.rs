//! Tests the methods that Sovia's streams have and std's do not.

use sovia::{BUFFER_MAX, Path, TcpListener, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::net;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time after which a test that waits counts as hanging.
const WATCHDOG: Duration = Duration::from_secs(60);

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    (one, other)
}

fn rounds(one: &mut TcpStream, other: &mut TcpStream, count: usize) {
    for _ in 0..count {
        one.write_all(b"w").unwrap();
        other.read_exact(&mut [0]).unwrap();
        other.write_all(b"w").unwrap();
        one.read_exact(&mut [0]).unwrap();
    }
}

/// Moves bytes until both ends are accelerated. Other tests connect streams in the same process at the same time, so
/// the number of rounds varies.
fn accelerate(one: &mut TcpStream, other: &mut TcpStream) {
    let begun = Instant::now();
    while !(one.is_accelerated() && other.is_accelerated()) {
        rounds(one, other, 50);
        assert!(begun.elapsed() < WATCHDOG, "{:?} and {:?}", one.stats(), other.stats());
    }
}

fn warm() -> (TcpStream, TcpStream) {
    let (mut one, mut other) = pair();
    accelerate(&mut one, &mut other);
    (one, other)
}

#[test]
fn stats_report_the_path_of_a_stream() {
    let (mut one, mut other) = pair();
    let before = one.stats();
    assert_eq!(before.path, Path::Meeting);
    accelerate(&mut one, &mut other);
    rounds(&mut one, &mut other, 50);
    let stats = one.stats();
    assert!(stats.path == Path::Via && stats.sends && stats.receives, "{stats:?}");
    assert!(stats.bytes_sent > 10 && stats.bytes_received > 10 && stats.messages_sent > 10);
    one.write_all(b"unread").unwrap();
    other.to_tcp().unwrap();
    let stats = other.stats();
    let Path::Tcp(Some(reason)) = stats.path else { panic!("{stats:?}") };
    assert!(reason.describe().contains("TCP"), "{reason:?}");
    let mut got = [0; 6];
    other.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"unread");
}

#[test]
fn a_stream_becomes_an_ordinary_one() {
    let (mut one, other) = warm();
    one.write_all(b"unread").unwrap();
    let mut other = net::TcpStream::from(other);
    let mut got = [0; 6];
    other.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"unread");
    other.write_all(b"answer").unwrap();
    one.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"answer");
    drop(OwnedFd::from(one));
    assert_eq!(other.read(&mut got).unwrap(), 0);
}

#[test]
fn ordinary_streams_are_taken_over() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let one = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    let (mut one, mut other) = (TcpStream::from(one), TcpStream::from(other));
    accelerate(&mut one, &mut other);

    // Bytes have moved, and their number is unknown.
    let mut one = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    one.write_all(b"x").unwrap();
    other.read_exact(&mut [0]).unwrap();
    let (mut one, mut other) = (TcpStream::from(one), TcpStream::from(other));
    rounds(&mut one, &mut other, 50);
    assert!(!one.is_accelerated() && !other.is_accelerated());
}

#[test]
fn buffers_are_in_place_and_in_order() {
    let (mut one, mut other) = warm();
    for (round, &size) in
        [1, 112, 113, 5000, 32768, BUFFER_MAX].iter().cycle().take(300).enumerate()
    {
        let mut buffer = one.reserve(size).unwrap();
        assert!(buffer.is_in_place());
        assert_eq!(buffer.len(), size);
        let second = one.reserve(200).unwrap();
        assert!(!second.is_in_place());
        drop(second);
        (&one).write_all(&[round as u8; 300]).unwrap();
        buffer.fill((round as u8).wrapping_add(1));
        buffer.commit(size).unwrap();
        assert!(buffer.is_empty());
        assert_eq!(buffer.commit(1).unwrap_err().kind(), ErrorKind::InvalidInput);
        drop(buffer);
        let mut got = [0; 300];
        other.read_exact(&mut got).unwrap();
        assert_eq!(got, [round as u8; 300]);
        let mut left = size;
        while left > 0 {
            let piece = other.borrow().unwrap();
            assert!(piece.iter().all(|&byte| byte == (round as u8).wrapping_add(1)));
            left -= piece.len();
        }
    }
    // Dropping the buffer sends nothing.
    one.reserve(1000).unwrap().fill(9);
    one.write_all(b"end").unwrap();
    drop(one);
    assert_eq!(&*other.borrow().unwrap(), b"end");
    assert!(other.borrow().unwrap().is_empty());
    other.set_nonblocking(true).unwrap();
}

#[test]
fn buffers_of_wrong_sizes_are_refused() {
    let (one, _other) = warm();
    assert_eq!(one.reserve(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(one.reserve(BUFFER_MAX + 1).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
    let mut short = one.reserve(10).unwrap();
    assert_eq!(short.commit(11).unwrap_err().kind(), ErrorKind::InvalidInput);
    short.commit(10).unwrap();
}

#[test]
fn borrowed_message_outlasts_later_messages() {
    let (mut one, other) = warm();
    one.write_all(&[7; 4000]).unwrap();
    let first = other.borrow().unwrap();
    assert!(first.is_in_place() && first.len() == 4000);
    for round in 0..1000u32 {
        one.write_all(&[round as u8; 10_000]).unwrap();
        let mut got = [0; 10_000];
        (&other).read_exact(&mut got).unwrap();
        assert_eq!(got, [round as u8; 10_000]);
    }
    assert!(first.iter().all(|&byte| byte == 7));
}

/// Checks for an edge at registration, and an edge for each arrival.
#[test]
fn readiness_misses_nothing() {
    let (mut one, mut other) = warm();
    other.set_nonblocking(true).unwrap();
    one.write_all(b"early").unwrap();
    let readiness = other.readiness().unwrap();
    // SAFETY: `event` is a live local, and this test owns the descriptors.
    let edge = |epoll: i32| unsafe {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        libc::epoll_wait(epoll, &raw mut event, 1, 5000)
    };
    // SAFETY: takes numbers only.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
    // SAFETY: `event` is a live local, and this test owns both descriptors.
    let added = unsafe {
        libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, readiness.as_raw_fd(), &raw mut event)
    };
    assert_eq!(added, 0);
    assert_eq!(edge(epoll), 1);
    let mut room = [0; 100];
    assert_eq!(other.read(&mut room).unwrap(), 5);
    for round in 0..2000 {
        assert_eq!(other.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
        one.write_all(b"next").unwrap();
        loop {
            match other.read(&mut room) {
                Ok(n) => {
                    assert_eq!(n, 4);
                    break;
                }
                Err(_) => assert_eq!(edge(epoll), 1, "round {round}"),
            }
        }
    }
    drop(one);
    while other.read(&mut room).is_err() {
        assert_eq!(edge(epoll), 1);
    }
    drop(readiness);
    // SAFETY: this test owns the descriptor, and does not use it again.
    unsafe { libc::close(epoll) };
}

#[test]
fn streams_come_and_go_in_the_reactor() {
    for _ in 0..200 {
        let (mut one, mut other) = pair();
        let readiness = (one.readiness().unwrap(), other.readiness().unwrap());
        rounds(&mut one, &mut other, 10);
        drop(readiness);
    }
}
