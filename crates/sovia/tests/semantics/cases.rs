// Checks the behaviour of std's streams. The cases are compiled once with std's types and once with Sovia's.

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, peer) = listener.accept().unwrap();
    assert_eq!(peer, one.local_addr().unwrap());
    (one, other)
}

/// Returns a connected pair. The rounds are enough for both ends to get a VI, if the types can have one.
fn warm() -> (TcpStream, TcpStream) {
    let (mut one, mut other) = pair();
    for _ in 0..50 {
        one.write_all(b"w").unwrap();
        other.read_exact(&mut [0]).unwrap();
        other.write_all(b"w").unwrap();
        one.read_exact(&mut [0]).unwrap();
    }
    (one, other)
}

#[test]
fn addresses_and_options() {
    let (one, other) = warm();
    assert_eq!(one.local_addr().unwrap(), other.peer_addr().unwrap());
    assert_eq!(one.peer_addr().unwrap(), other.local_addr().unwrap());
    one.set_nodelay(true).unwrap();
    assert!(one.nodelay().unwrap());
    one.set_ttl(77).unwrap();
    assert_eq!(one.ttl().unwrap(), 77);
    assert!(one.take_error().unwrap().is_none());
    assert_eq!(one.read_timeout().unwrap(), None);
    assert_eq!(one.as_fd().as_raw_fd(), one.as_raw_fd());
    assert!(format!("{one:?}").contains("TcpStream"));
    assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn bytes_both_ways() {
    let (mut one, mut other) = warm();
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
    let writer = {
        let sent = sent.clone();
        let mut one = one.try_clone().unwrap();
        thread::spawn(move || one.write_all(&sent).unwrap())
    };
    let mut got = vec![0; sent.len()];
    other.read_exact(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent);
    (&other).write_all(b"back").unwrap();
    let mut back = [0; 4];
    (&one).read_exact(&mut back).unwrap();
    assert_eq!(&back, b"back");
    one.flush().unwrap();
}

#[test]
fn vectors() {
    let (mut one, mut other) = warm();
    let parts = [IoSlice::new(b"first "), IoSlice::new(b""), IoSlice::new(b"second")];
    assert_eq!(one.write_vectored(&parts).unwrap(), 12);
    let (mut a, mut b) = ([0; 3], [0; 20]);
    let n = other.read_vectored(&mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)]).unwrap();
    assert_eq!((n, &a, &b[..9]), (12, b"fir", &b"st second"[..]));
}

#[test]
fn peeking_leaves_bytes() {
    let (mut one, mut other) = warm();
    one.write_all(b"look").unwrap();
    let mut seen = [0; 8];
    assert_eq!(other.peek(&mut seen).unwrap(), 4);
    assert_eq!(other.read(&mut seen).unwrap(), 4);
    assert_eq!(&seen[..4], b"look");
}

#[test]
fn half_and_full_close() {
    let (mut one, mut other) = warm();
    one.write_all(b"last").unwrap();
    one.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    other.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"last");
    other.write_all(b"still").unwrap();
    drop(other);
    let mut all = String::new();
    one.read_to_string(&mut all).unwrap();
    assert_eq!(all, "still");
    assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_clone_keeps_the_stream_open() {
    let (one, mut other) = warm();
    let mut copy = one.try_clone().unwrap();
    drop(one);
    copy.write_all(b"here").unwrap();
    let mut got = [0; 4];
    other.read_exact(&mut got).unwrap();
    drop(copy);
    assert_eq!(other.read(&mut got).unwrap(), 0);
}

#[test]
fn a_reset_is_an_error() {
    let (mut one, other) = warm();
    one.write_all(b"unread").unwrap();
    drop(other);
    let start = Instant::now();
    let kind = loop {
        match one.read(&mut [0]) {
            Err(e) => break e.kind(),
            Ok(n) => assert!(n == 0 && start.elapsed() < Duration::from_secs(5)),
        }
    };
    assert_eq!(kind, ErrorKind::ConnectionReset);
}

#[test]
fn timeouts_and_non_blocking_calls() {
    let (mut one, mut other) = warm();
    one.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let start = Instant::now();
    assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(start.elapsed() >= Duration::from_millis(45));
    one.set_read_timeout(None).unwrap();
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(other.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let piece = [1; 60_000];
    let mut filled = 0;
    loop {
        match other.write(&piece) {
            Ok(n) => filled += n,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(filled > 100_000);
    let mut left = filled;
    let mut room = vec![0; 1 << 16];
    while left > 0 {
        left -= one.read(&mut room).unwrap();
    }
    other.set_nonblocking(false).unwrap();
    one.write_all(b"x").unwrap();
    assert_eq!(other.read(&mut [0; 4]).unwrap(), 1);
}

#[test]
fn listeners() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let copy = listener.try_clone().unwrap();
    let one = TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
    let other = copy.incoming().next().unwrap().unwrap();
    assert_eq!(one.peer_addr().unwrap(), other.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(listener.take_error().unwrap().is_none());
    drop((listener, copy));
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn over_ipv6() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let address: SocketAddr = listener.local_addr().unwrap();
    let mut one = TcpStream::connect(address).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    for i in 0..20 {
        one.write_all(&[i; 200]).unwrap();
        let mut got = [0; 200];
        other.read_exact(&mut got).unwrap();
        assert_eq!(got, [i; 200]);
    }
}
