//! Requesters that send junk, send nothing, or belong to another user.

use super::*;
use crate::ShmNic;
use core::time::Duration;
use sovia_sys::{clock, poll};
use std::thread;
use via::{Connection, Nic, Vi};

const SOON: Option<Duration> = Some(Duration::from_secs(10));

/// Waits at an address while `others` runs, and then serves a correct requester.
fn served_in_spite_of(test: &str, others: impl FnOnce(&Name) + Send) {
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
        others(&name);
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
        // A request for an unknown link, sent twice.
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
        call::ftruncate(unsealed.raw(), sovia_ring::layout::SEGMENT as u64).unwrap();
        let unmarked =
            sovia_sys::mapping::sealed_memory(c"unmarked", sovia_ring::layout::SEGMENT as u64)
                .unwrap();
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

/// An engine's thread writes to the doorbell and must not block.
#[test]
fn a_doorbell_that_could_block_is_not_taken() {
    served_in_spite_of("doorbell", |name| {
        let blocking = Fd::adopt(call::eventfd(libc::EFD_CLOEXEC).unwrap());
        let file = sovia_sys::mapping::sealed_memory(c"file", 4096).unwrap();
        call::fcntl(file.raw(), libc::F_SETFL, libc::O_NONBLOCK as usize).unwrap();
        for doorbell in [&blocking, &file] {
            let (_segment, segment) = sovia_ring::Segment::create().unwrap();
            let socket = Packets::connect(name).unwrap();
            socket.send(&request_of(1, 0).write(), &[segment.raw(), doorbell.raw()]).unwrap();
            wait(&socket);
            let mut buf = [0; wire::MESSAGE_MAX];
            let len = socket.receive(&mut buf).unwrap().len;
            assert!(wire::read_welcome(&buf[..len]).is_some());
            wait(&socket);
            assert_eq!(socket.receive(&mut buf).map_or(0, |got| got.len), 0, "it was answered");
        }
    });
}

/// Returns the other end's next message. Fails if there is none.
fn message(socket: &Packets) -> Vec<u8> {
    let mut buf = [0; wire::MESSAGE_MAX];
    let until = Some(clock::now_ns() + 60_000_000_000);
    let len = receive(socket, &mut buf, until).unwrap().expect("the end").len;
    buf[..len].to_vec()
}

/// Connects more silent requesters than `ARRIVALS_MAX`.
#[test]
fn silent_requesters_keep_no_other_from_being_served() {
    let mut silent = Vec::new();
    served_in_spite_of("silent", |name| {
        while silent.len() < 200 {
            match Packets::connect(name) {
                Ok(socket) => silent.push(socket),
                Err(_) => thread::yield_now(),
            }
        }
        // The oldest requesters have been turned away.
        assert!(wire::read_welcome(&message(&silent[0])).is_some());
        assert_eq!(Answer::read(&message(&silent[0])), Some(Answer::NobodyWaits));
    });
}

/// A requester's thread may be stopped between Welcome and its request.
#[test]
fn a_requester_may_state_its_request_after_others_have_been_served() {
    let nic = ShmNic::open(&format!("slow-{}", call::getpid())).unwrap();
    let address = nic.address(b"door");
    let name = name_of(call::geteuid(), &address).unwrap();
    let vi = || nic.create_vi(Default::default()).unwrap();
    let (first, second, fast) = (vi(), vi(), vi());
    thread::scope(|s| {
        let (nic, address) = (&nic, &address);
        let wait = |ours| s.spawn(move || nic.connect_wait(address, SOON).unwrap().accept(ours));
        let waits = [wait(&first), wait(&second)];
        // Wait until both threads wait at the address. A later thread would create the address anew, after the
        // first thread has left.
        while Hub::open().unwrap().listeners.waiting_at(address) < 2 {
            thread::yield_now();
        }
        let slow = Packets::connect(&name).unwrap();
        assert!(wire::read_welcome(&message(&slow)).is_some());
        fast.connect_request(address, address, SOON).unwrap();
        let (segment, fd) = sovia_ring::Segment::create().unwrap();
        let doorbell = Fd::adopt(call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).unwrap());
        let requester = Link::new(segment, 7, Peer::myself());
        let taken =
            requester.segment.request_connection(0, &[0; sovia_ring::request::DISCRIMINATOR]);
        slow.send(&request_of(7, taken.unwrap()).write(), &[fd.raw(), doorbell.raw()]).unwrap();
        assert!(matches!(Answer::read(&message(&slow)), Some(Answer::Accepted(_))));
        waits.into_iter().for_each(|wait| wait.join().unwrap().unwrap());
    });
}

#[test]
fn requester_slower_than_the_wait_is_refused() {
    let mut slow = None;
    served_in_spite_of("slower", |name| {
        let socket = Packets::connect(name).unwrap();
        assert!(wire::read_welcome(&message(&socket)).is_some());
        slow = Some(socket);
    });
    let slow = slow.unwrap();
    // The waiting side has already closed the socket, so the send may fail.
    let _ = slow.send(&request_of(1, 0).write(), &[]);
    assert_eq!(Answer::read(&message(&slow)), Some(Answer::NobodyWaits));
}

/// The test's listener takes the part of a copy in a forked child, which keeps the name in use until the child
/// executes a program.
#[test]
fn connect_wait_waits_for_a_name_that_only_a_child_holds() {
    let nic = ShmNic::open(&format!("held-{}", call::getpid())).unwrap();
    let address = nic.address(b"door");
    let name = name_of(call::geteuid(), &address).unwrap();
    let held = sovia_sys::seqpacket::Listener::bind(&name).unwrap();
    let none = Some(Duration::ZERO);
    let in_use = ConnectError::Resource("another process waits at this address");
    assert_eq!(nic.connect_wait(&address, none).err(), Some(in_use));
    held.shutdown();
    assert_eq!(nic.connect_wait(&address, none).err(), Some(ConnectError::Timeout));
    drop(held);
    assert_eq!(nic.connect_wait(&address, none).err(), Some(ConnectError::Timeout));
}

/// Tries VIs of the wrong half, and VIs that were not requested.
#[test]
fn a_vi_that_was_not_requested_is_not_accepted() {
    let (segment, _fd) = sovia_ring::Segment::create().unwrap();
    let link = Arc::new(Link::new(segment, 1, Peer::myself()));
    assert!(Attachment::accept(&link, 0).is_none());
    assert!(Attachment::accept(&link, 1).is_none(), "our own half");
    assert!(Attachment::accept(&link, u32::MAX).is_none());
    let requested = Attachment::request(&link).unwrap();
    let accepted = Attachment::accept(&link, requested.vi);
    assert!(accepted.is_some() && Attachment::accept(&link, requested.vi).is_none());
}

/// Both sides refuse another user. Needs the right to change the user id.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
fn another_user_is_refused() {
    const NOBODY: u32 = 65534;
    if call::geteuid() != 0 {
        return;
    }
    served_in_spite_of("user", |name| {
        // The raw system call changes the user of this thread only, not of the process.
        let requester = thread::scope(|s| {
            s.spawn(|| {
                // SAFETY: the system call takes plain numbers and accesses no memory.
                let result = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) };
                assert_eq!(result, 0);
                Packets::connect(name)
            })
            .join()
            .unwrap()
        });
        let Ok(socket) = requester else { return };
        wait(&socket);
        let mut buf = [0; wire::MESSAGE_MAX];
        assert_eq!(socket.receive(&mut buf).map_or(0, |got| got.len), 0, "it was welcomed");
    });
}
