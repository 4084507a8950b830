//! Strangers at the door.

use super::*;
use crate::ShmNic;
use core::time::Duration;
use sovia_sys::poll;
use std::thread;
use via::{Connection, Nic, Vi};

const SOON: Option<Duration> = Some(Duration::from_secs(10));

/// Waits at an address while `strangers` do as they like, and then somebody comes who means it.
fn served_in_spite_of(test: &str, strangers: impl FnOnce(&Name) + Send) {
    let nic = ShmNic::open(&format!("{test}-{}", call::getpid())).unwrap();
    let address = nic.address(b"door");
    let name = name_of(call::geteuid(), &address).unwrap();
    let (ours, theirs) = (nic.create_vi(Default::default()), nic.create_vi(Default::default()));
    let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
    thread::scope(|s| {
        let server = s.spawn(|| nic.connect_wait(&address, SOON).unwrap().accept(&ours));
        while Packets::connect(&name).is_err() {
            thread::yield_now();
        }
        strangers(&name);
        theirs.connect_request(&address, &address, SOON).unwrap();
        server.join().unwrap().unwrap();
    });
}

fn wait(socket: &Packets) {
    let mut fds = [PollFd { fd: socket.raw(), events: libc::POLLIN, revents: 0 }];
    poll::ppoll(&mut fds, Some(5_000_000_000), None).unwrap();
}

fn request_of(link: u64, vi: u32) -> Request {
    Request {
        token: [9; 16],
        token_at: 0,
        link,
        vi,
        attributes: ViAttributes::default(),
        local: NetAddress::new(b"", b""),
    }
}

#[test]
fn junk_is_turned_away() {
    served_in_spite_of("junk", |name| {
        for len in [1, 4, 20, 500] {
            let socket = Packets::connect(name).unwrap();
            socket.send(&vec![0xa5; len], &[]).unwrap();
            drop(socket);
        }
        // A request that names a link that nobody has heard of, twice.
        let socket = Packets::connect(name).unwrap();
        let mut buf = [0; wire::MESSAGE_MAX];
        let mut answers = 0;
        for _ in 0..2 {
            let _ = socket.send(&request_of(7, 0).write(), &[]);
        }
        while let Ok(Some(got)) = receive(&socket, &mut buf, Some(clock::now_ns() + 60_000_000_000))
        {
            answers += usize::from(Answer::read(&buf[..got.len]) == Some(Answer::UnknownLink));
        }
        assert_eq!(answers, 2);
    });
}

#[test]
fn a_segment_that_is_none_is_not_mapped() {
    served_in_spite_of("segment", |name| {
        let small = sovia_sys::mapping::sealed_memory(c"small", 4096).unwrap();
        let unsealed = Fd::adopt(call::memfd_create(c"unsealed", 0).unwrap());
        call::ftruncate(unsealed.raw(), crate::layout::SEGMENT as u64).unwrap();
        let unmarked =
            sovia_sys::mapping::sealed_memory(c"unmarked", crate::layout::SEGMENT as u64).unwrap();
        let pipe = Fd::adopt(call::eventfd(0).unwrap());
        for fd in [&small, &unsealed, &unmarked, &pipe] {
            let socket = Packets::connect(name).unwrap();
            socket.send(&request_of(1, 0).write(), &[fd.raw()]).unwrap();
            wait(&socket);
            let mut buf = [0; wire::MESSAGE_MAX];
            let len = socket.receive(&mut buf).unwrap().len;
            assert!(wire::read_welcome(&buf[..len]).is_some());
            wait(&socket);
            assert_eq!(socket.receive(&mut buf).map_or(0, |got| got.len), 0, "it was answered");
        }
    });
}

/// A doorbell is rung by an engine's thread, which must not block.
#[test]
fn a_doorbell_that_could_block_is_not_taken() {
    served_in_spite_of("doorbell", |name| {
        let blocking = Fd::adopt(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        let file = sovia_sys::mapping::sealed_memory(c"file", 4096).unwrap();
        call::fcntl(file.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).unwrap();
        for door in [&blocking, &file] {
            let (_segment, segment) = crate::Segment::create().unwrap();
            let socket = Packets::connect(name).unwrap();
            socket.send(&request_of(1, 0).write(), &[segment.raw(), door.raw()]).unwrap();
            wait(&socket);
            let mut buf = [0; wire::MESSAGE_MAX];
            let len = socket.receive(&mut buf).unwrap().len;
            assert!(wire::read_welcome(&buf[..len]).is_some());
            wait(&socket);
            assert_eq!(socket.receive(&mut buf).map_or(0, |got| got.len), 0, "it was answered");
        }
    });
}

/// Silence holds a waiting thread up for a moment only.
#[test]
fn a_silent_one_is_not_waited_for() {
    let mut silent = None;
    served_in_spite_of("silent", |name| silent = Packets::connect(name).ok());
    assert!(silent.is_some());
}

/// A VI that the requester has no right to give away, or has not requested.
#[test]
fn a_vi_that_was_not_requested_is_not_accepted() {
    let (segment, _fd) = crate::Segment::create().unwrap();
    let link = Arc::new(Link::new(segment, 1, Peer::myself()));
    assert!(Attachment::accept(&link, 0).is_none());
    assert!(Attachment::accept(&link, 1).is_none(), "our own half");
    assert!(Attachment::accept(&link, u32::MAX).is_none());
    let requested = Attachment::request(&link).unwrap();
    let accepted = Attachment::accept(&link, requested.vi);
    assert!(accepted.is_some() && Attachment::accept(&link, requested.vi).is_none());
}

/// Another user is refused by both sides. Needs the right to become one.
#[test]
fn another_user_is_refused() {
    const NOBODY: u32 = 65534;
    if call::geteuid() != 0 {
        return;
    }
    served_in_spite_of("user", |name| {
        // A thread may be another user than its process: by the system call itself.
        let stranger = thread::scope(|s| {
            s.spawn(|| {
                // SAFETY: takes plain numbers.
                let result = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) };
                assert_eq!(result, 0);
                Packets::connect(name)
            })
            .join()
            .unwrap()
        });
        let Ok(socket) = stranger else { return };
        wait(&socket);
        let mut buf = [0; wire::MESSAGE_MAX];
        assert_eq!(socket.receive(&mut buf).map_or(0, |got| got.len), 0, "it was welcomed");
    });
}
