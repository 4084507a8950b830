//! Entries of epoll instances, as /proc shows them (proc_pid_fdinfo(5)).

use crate::call::{self, RawFd, Result};
use crate::{Errno, Fd};

/// The bits that stay in an entry with EPOLLONESHOT after its events were reported (`EP_PRIVATE_BITS` of
/// fs/eventpoll.c).
const LEFT_BY_ONESHOT: u32 =
    (libc::EPOLLWAKEUP | libc::EPOLLONESHOT | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;

/// An entry of an epoll instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    events: u32,
    /// The program's user data.
    pub data: u64,
}

impl Entry {
    /// Returns true if the instance would report the entry's events. After a report, EPOLLONESHOT disables the
    /// entry.
    pub fn is_armed(&self) -> bool {
        self.events & !LEFT_BY_ONESHOT != 0
    }
}

/// Returns the entry of a descriptor.
///
/// # Errors
/// `ENOENT` if the instance has no such entry, if /proc is missing, or if the kernel shows no inode (before Linux
/// 4.13). Other errors come from opening and reading.
pub fn of(epfd: RawFd, fd: RawFd) -> Result<Entry> {
    let (_, inode) = call::file_id(fd)?;
    let file = Fd::make(|| call::open_info(epfd))?;
    call::find_line(file.raw(), |line| parse(line, fd, inode))?.ok_or(Errno::ENOENT)
}

/// Parses the line of an entry. Returns the entry if it belongs to this descriptor and inode. An example: `tfd:
/// 5 events: 40000019 data:                5  pos:0 ino:1a2b sdev:8`.
fn parse(line: &[u8], fd: RawFd, inode: u64) -> Option<Entry> {
    let mut words =
        core::str::from_utf8(line).ok()?.split([' ', ':']).filter(|word| !word.is_empty());
    let mut after = |name: &str| words.find(|&word| word == name).and_then(|_| words.next());
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let number: RawFd = after("tfd")?.parse().ok()?;
    let events = hex(after("events")?)? as u32;
    let data = hex(after("data")?)?;
    let of = hex(after("ino")?)?;
    (number == fd && of == inode).then_some(Entry { events, data })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn an_entry_is_armed_until_its_event_is_reported_once() {
        let epoll = Fd::adopt(poll::epoll_create().unwrap());
        // Enough entries that one read does not return all of them.
        let sockets: Vec<UdpSocket> = (0..100).map(|_| socket()).collect();
        for (data, socket) in (0..).zip(&sockets) {
            let events =
                libc::EPOLLONESHOT | if data % 2 == 0 { libc::EPOLLOUT } else { libc::EPOLLIN };
            let fd = socket.as_raw_fd();
            poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, fd, events as u32, data).unwrap();
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 50];
        assert_eq!(poll::epoll_wait(epoll.raw(), &mut events, Some(0), None), Ok(50));
        for (at, socket) in sockets.iter().enumerate() {
            let entry = of(epoll.raw(), socket.as_raw_fd()).unwrap();
            assert_eq!((entry.is_armed(), entry.data), (at % 2 == 1, at as u64));
        }
    }

    #[test]
    fn a_descriptor_that_is_not_in_the_instance_is_not_found() {
        let epoll = Fd::adopt(poll::epoll_create().unwrap());
        assert_eq!(of(epoll.raw(), socket().as_raw_fd()), Err(Errno::ENOENT));
    }

    #[test]
    fn another_file_with_the_same_number_is_another_entry() {
        let line = b"tfd:        5 events: 4000201d data:               1f  pos:0 ino:1a2b sdev:8";
        assert_eq!(parse(line, 5, 0x1a2b), Some(Entry { events: 0x4000_201d, data: 0x1f }));
        assert_eq!(parse(line, 5, 0x1a2c), None);
        assert_eq!(parse(line, 6, 0x1a2b), None);
        assert_eq!(parse(b"pos:\t0", 5, 0x1a2b), None);
    }
}
