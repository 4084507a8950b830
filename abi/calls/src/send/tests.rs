use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

#[test]
fn flags_of_sends_are_decoded_one_by_one() {
    for (how, wanted) in [
        (0, [false, false]),
        (libc::MSG_DONTWAIT, [true, false]),
        (libc::MSG_NOSIGNAL, [false, true]),
        (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL, [true, true]),
        (!(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL), [false, false]),
    ] {
        let flags = flags(how);
        assert_eq!([flags.dont_wait, flags.no_signal], wanted, "{how:x}");
        assert!(!flags.peek && !flags.wait_all);
    }
}

#[test]
fn flags_that_the_kernel_must_see_are_not_carried() {
    for how in [libc::MSG_OOB, libc::MSG_FASTOPEN, libc::MSG_ZEROCOPY, libc::MSG_PEEK, c_int::MIN] {
        assert_ne!(how & !CARRIED, 0, "{how:x}");
    }
}

#[test]
fn control_messages_of_any_shape_are_walked_to_their_end() {
    start();
    let scratch = Scratch::new();
    let rights = [20, libc::SOL_SOCKET as usize | (libc::SCM_RIGHTS as usize) << 32, usize::MAX];
    // Tests control messages with a length that is right, zero, too short or too long. Also tests memory that ends
    // within a header or within its data.
    for len in [20, 0, 15, 16, 17, usize::MAX, 1 << 40] {
        let mut words = rights;
        words[0] = len;
        let mut both = [0; 6];
        both[..3].copy_from_slice(&words);
        both[3..].copy_from_slice(&rights);
        for (at, room) in [
            (both.as_ptr() as usize, 48),
            (both.as_ptr() as usize, 24),
            (both.as_ptr() as usize, 15),
            (0, 48),
            (scratch.end(), 48),
            (scratch.edge(8), 48),
            (scratch.edge(18), 48),
        ] {
            // SAFETY: all zeros are a valid message header.
            let mut message: msghdr = unsafe { core::mem::zeroed() };
            (message.msg_control, message.msg_controllen) = (at as *mut c_void, room);
            passing(-1, &raw const message);
        }
    }
    passing(-1, scratch.end() as *const msghdr);
    assert!(table::conn(-1).is_none());
}

/// Sends one byte on TCP, with the first `len` bytes of `words` as control messages. Returns the kernel's result
/// and the result of [`is_ignored`].
fn sent_with(words: &[usize], len: usize, by: &TcpStream) -> (isize, bool) {
    let mut part = iovec { iov_base: b"x".as_ptr() as *mut c_void, iov_len: 1 };
    // SAFETY: all zeros are a valid message header.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (words.as_ptr() as *mut c_void, len);
    // SAFETY: the message and its buffers outlive the call.
    let sent = unsafe { libc::sendmsg(by.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    (sent, is_ignored(&message))
}

#[test]
fn control_messages_that_are_ignored_are_those_that_the_kernel_ignores_on_tcp() {
    start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let by = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let kind = |level: c_int, kind: c_int| level as usize | (kind as usize) << 32;
    let (socket, scratch) = (libc::SOL_SOCKET, Scratch::new());
    for (words, len, wanted) in [
        (vec![], 0, true),
        (vec![20, kind(socket, libc::SCM_RIGHTS), usize::MAX], 24, true),
        (vec![28, kind(socket, libc::SCM_CREDENTIALS), 0, 0], 32, true),
        (
            vec![
                28,
                kind(socket, libc::SCM_CREDENTIALS),
                0,
                0,
                20,
                kind(socket, libc::SCM_RIGHTS),
                0,
            ],
            56,
            true,
        ),
        (vec![20, kind(libc::IPPROTO_IP, libc::IP_TTL), 7], 24, true),
        (vec![20, kind(libc::IPPROTO_TCP, 36), 7], 24, true),
        // The kernel acts on these control messages, alone and after others.
        (vec![20, kind(socket, libc::SO_MARK), 7], 24, false),
        (
            vec![20, kind(socket, libc::SCM_RIGHTS), 0, 20, kind(socket, libc::SCM_TXTIME), 0],
            48,
            false,
        ),
        (vec![20, kind(socket, libc::SO_TIMESTAMPING), 0], 24, false),
        (vec![20, kind(socket, 99), 0], 24, false),
        // Lengths that are too small or too large.
        (vec![15, kind(socket, libc::SCM_RIGHTS), 0], 24, false),
        (vec![25, kind(socket, libc::SCM_RIGHTS), 0], 24, false),
        (vec![usize::MAX, kind(socket, libc::SCM_RIGHTS), 0], 24, false),
    ] {
        let (sent, is_ignored) = sent_with(&words, len, &by);
        assert_eq!(is_ignored, wanted, "{words:x?}, {len}");
        assert!(sent == 1 || !is_ignored, "{words:x?}, {len}");
    }
    // Tests control messages in unmapped memory, and in memory that ends within a control message.
    for (at, len) in [(0, 24), (scratch.end(), 24), (scratch.end(), 8), (scratch.edge(8), 24)] {
        // SAFETY: all zeros are a valid message header.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        (message.msg_control, message.msg_controllen) = (at as *mut c_void, len);
        assert!(!is_ignored(&message), "{at:x}, {len}");
    }
}
