//! Descriptors that a hostile peer may send as a segment, a doorbell or a notice of its death.

use crate::input::Input;
use sovia_ring::layout::{MAGIC, SEGMENT};
use sovia_sys::{Fd, call};
use std::os::fd::{AsRawFd, IntoRawFd};

/// Seals without which a segment may not be mapped.
const NEEDED: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// Seals with which it cannot be written.
const WRITE: i32 = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;

/// Purpose for which a descriptor is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A segment.
    Segment,
    /// A doorbell.
    Doorbell,
    /// A descriptor that reports its sender's death.
    Notice,
}

/// A descriptor, and what it may be used as.
#[derive(Debug)]
pub struct Gift {
    /// The sender's descriptor.
    pub fd: Fd,
    /// The one thing that it is good for, if it is.
    pub good_as: Option<Use>,
}

/// One of everything that a descriptor can be. `None` where the system has none of the kind.
pub fn choose(input: &mut Input<'_>) -> Option<Gift> {
    let bad = |fd: i32| Some(Gift { fd: Fd::keep(fd), good_as: None });
    let good = |fd: i32, good_as| Some(Gift { fd: Fd::keep(fd), good_as: Some(good_as) });
    let open = |path, flags| call::open(path, flags | libc::O_CLOEXEC, 0o600).ok();
    match input.below(20) {
        0..=6 => memory_file(input),
        7 => {
            let flags = i32::from(input.u8()) & (libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE);
            let flags = flags | if input.flag() { libc::EFD_NONBLOCK } else { 0 };
            let fd = call::eventfd(flags | libc::EFD_CLOEXEC).ok()?;
            if flags & libc::EFD_NONBLOCK != 0 { good(fd, Use::Doorbell) } else { bad(fd) }
        }
        8 => good(call::pidfd_of_self().ok()?, Use::Notice),
        9 => pipe_end(0),
        10 => pipe_end(1),
        11 => {
            let (one, other) = Fd::pair(libc::AF_UNIX, libc::SOCK_STREAM).ok()?;
            drop(other);
            Some(Gift { fd: one, good_as: None })
        }
        12 => lingering_socket(),
        13 => bad(open(c"/tmp", libc::O_RDWR | libc::O_TMPFILE)?),
        14 => bad(open(c"/dev/shm", libc::O_RDWR | libc::O_TMPFILE)?),
        15 => bad(open(c"/", libc::O_RDONLY | libc::O_DIRECTORY)?),
        16 => bad(open(c"/", libc::O_PATH)?),
        17 => bad(open(c"/dev/zero", libc::O_RDWR)?),
        18 => bad(sovia_sys::poll::epoll_create().ok()?),
        // SAFETY: makes a descriptor, of plain numbers.
        _ => bad(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) }),
    }
}

fn pipe_end(which: usize) -> Option<Gift> {
    let ends = call::pipe().ok()?.map(Fd::keep);
    let good_as = (which == 0).then_some(Use::Notice);
    let fd = ends.into_iter().nth(which)?;
    Some(Gift { fd, good_as })
}

/// A socket whose close waits until its peer has read everything, which it never does.
fn lingering_socket() -> Option<Gift> {
    let ends = crate::tcp::Ends::new();
    let fd = ends.connector.as_raw_fd();
    let bytes = vec![0; 1 << 16];
    while call::send(fd, &bytes[..], libc::MSG_DONTWAIT).is_ok() {}
    call::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 3600]).ok()?;
    ends.connector.set_nonblocking(false).ok()?;
    let fd = Fd::keep(ends.connector.into_raw_fd());
    Some(Gift { fd, good_as: None })
}

/// A memory file of one of the sizes that are worth a try, with some seals.
fn memory_file(input: &mut Input<'_>) -> Option<Gift> {
    const PAGE: u64 = 4096;
    let size = match input.below(10) {
        0 => 0,
        1 => 1,
        2 => PAGE,
        3 => SEGMENT as u64 - 1,
        4 => SEGMENT as u64 + 1,
        5 => SEGMENT as u64 + PAGE,
        6 => (1 << 62) - PAGE,
        _ => SEGMENT as u64,
    };
    let kind = input.u8();
    let hugetlb = kind & 0xf == 1;
    let sealable = kind & 0xf != 2;
    let read_only = kind & 0xf == 3;
    let marked = kind & 0xf0 != 0;
    let seals = if input.flag() { NEEDED } else { i32::from(input.u8()) & (NEEDED | WRITE) };
    let flags = libc::MFD_CLOEXEC
        | if sealable { libc::MFD_ALLOW_SEALING } else { 0 }
        | if hugetlb { libc::MFD_HUGETLB } else { 0 };
    let mut file = Fd::keep(call::memfd_create(c"sovia", flags).ok()?);
    let sized = call::ftruncate(file.raw(), size).is_ok();
    let marked = marked && sized && size >= 8 && !hugetlb && {
        // SAFETY: the bytes are there for the call.
        let n = unsafe { libc::pwrite(file.raw(), MAGIC.to_ne_bytes().as_ptr().cast(), 8, 0) };
        n == 8
    };
    let sealed = call::fcntl(file.raw(), libc::F_ADD_SEALS, seals as usize).is_ok() && sealable;
    if read_only {
        let path = std::ffi::CString::new(format!("/proc/self/fd/{}", file.raw())).ok()?;
        file = Fd::keep(call::open(&path, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?);
    }
    let good = marked
        && size == SEGMENT as u64
        && sealed
        && seals & NEEDED == NEEDED
        && seals & WRITE == 0
        && !hugetlb
        && !read_only;
    Some(Gift { fd: file, good_as: good.then_some(Use::Segment) })
}

/// Changes a file as its hostile sender may do later, through its own descriptor of that file.
pub fn change(fd: i32, input: &mut Input<'_>) {
    match input.below(5) {
        0 => drop(call::ftruncate(fd, [0, 4096, SEGMENT as u64 / 2][input.below(3)])),
        1 => {
            let seals = i32::from(input.u8()) & (NEEDED | WRITE);
            let _ = call::fcntl(fd, libc::F_ADD_SEALS, seals as usize);
        }
        2 => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            let from = i64::from(input.u16()) << 12;
            // SAFETY: takes plain numbers.
            unsafe { libc::fallocate(fd, mode, from, i64::from(input.u16()) << 12) };
        }
        3 => {
            // A counter that is full: a ring finds no room. (Whether the ring then waits is a flag that
            // the peer may clear; docs/reference/security.md says so. It is left set.)
            if is_counter(fd) {
                let _ = call::write(fd, &(u64::MAX - 1).to_ne_bytes());
            }
        }
        _ => drop(call::fcntl(fd, libc::F_SETFL, (libc::O_NONBLOCK | libc::O_APPEND) as usize)),
    }
}

fn is_counter(fd: i32) -> bool {
    let mut target = [0; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    target[..n].starts_with(b"anon_inode:[eventfd]") && call::is_nonblocking(fd)
}
