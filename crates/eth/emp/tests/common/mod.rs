//! Stations on loopback, and memory for messages.

#![allow(dead_code, reason = "not every test program has all of it")]

use core::cell::UnsafeCell;
use emp_eth::{Config, Handle, Mode, Node, Piece, PostError, Station};

pub(crate) const KEY: u64 = 0x0123_4567_89ab_cdef;

/// Opens a station on loopback.
pub(crate) fn open(mode: Mode, change: impl Fn(&mut Config)) -> Station {
    let mut config = Config::new("udp:127.0.0.1:0".parse().unwrap(), KEY);
    config.mode = mode;
    change(&mut config);
    Station::open(&config).unwrap()
}

/// Returns two stations. Each is the other's peer 0.
pub(crate) fn pair(mode: Mode, change: impl Fn(&mut Config)) -> (Station, Station) {
    let (one, other) = (open(mode, &change), open(mode, &change));
    assert_eq!(one.add_peer(&other.address(), other.key()), Ok(0));
    assert_eq!(other.add_peer(&one.address(), one.key()), Ok(0));
    (one, other)
}

/// Memory of a message. Tests keep it until the transfer has ended.
pub(crate) struct Bytes(Box<[UnsafeCell<u8>]>);

impl Bytes {
    pub(crate) fn of(bytes: impl Iterator<Item = u8>) -> Bytes {
        Bytes(bytes.map(UnsafeCell::new).collect())
    }

    pub(crate) fn zeroed(len: usize) -> Bytes {
        Bytes::of((0..len).map(|_| 0))
    }

    pub(crate) fn pattern(len: usize) -> Bytes {
        Bytes::of((0..len).map(|at| (at * 7 + at / 251 + 1) as u8))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the cell is live. A NIC may write meanwhile, and then only the value of this byte is unspecified.
        self.0.iter().map(|byte| unsafe { byte.get().read_volatile() }).collect()
    }

    pub(crate) fn piece(&self) -> Piece {
        Piece { address: self.0.as_ptr() as u64, length: self.0.len() }
    }

    pub(crate) fn try_send(&self, from: &Station, to: Node, tag: u32) -> Result<Handle, PostError> {
        // SAFETY: tests keep the memory until the send has ended or its station has been dropped.
        unsafe { from.post_send(to, tag, &[self.piece()]) }
    }

    #[track_caller]
    pub(crate) fn send(&self, from: &Station, to: Node, tag: u32) -> Handle {
        self.try_send(from, to, tag).unwrap()
    }

    #[track_caller]
    pub(crate) fn receive(&self, at: &Station, from: Option<Node>, tag: Option<u32>) -> Handle {
        // SAFETY: tests keep the memory until the receive has ended or its station has been dropped. Only `bytes` reads
        // the memory.
        unsafe { at.post_receive(from, tag, &[self.piece()]) }.unwrap()
    }
}
