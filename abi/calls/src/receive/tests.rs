use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;

#[test]
fn flags_of_receives_are_decoded_one_by_one() {
    for (how, wanted) in [
        (0, [false, false, false]),
        (libc::MSG_DONTWAIT, [true, false, false]),
        (libc::MSG_PEEK, [false, true, false]),
        (libc::MSG_WAITALL, [false, false, true]),
        (libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL, [true; 3]),
        (!(libc::MSG_DONTWAIT | libc::MSG_PEEK | libc::MSG_WAITALL), [false; 3]),
    ] {
        let flags = flags(how);
        assert_eq!([flags.dont_wait, flags.peek, flags.wait_all], wanted, "{how:x}");
        assert!(flags.no_signal && flags.empty_waits);
    }
}

#[test]
fn time_outs_of_recvmmsg_are_none_if_out_of_range() {
    for (tv_sec, tv_nsec, wanted) in [
        (0, 0, Some(0)),
        (2, 1, Some(2_000_000_001)),
        (0, 1_000_000_000, None),
        (0, -1, None),
        (-1, 0, None),
        (i64::MAX, 999_999_999, Some(u64::MAX)),
    ] {
        assert_eq!(nanoseconds(&timespec { tv_sec, tv_nsec }), wanted, "{tv_sec}, {tv_nsec}");
    }
}

/// Stores a control message of TCP_INQ in `room` bytes. Returns the result of [`give_left`], and the bytes of the
/// buffer.
fn give_left_in(room: usize) -> (Result<(size_t, c_int), Errno>, [u8; 32]) {
    let mut bytes = [0xee_u8; 32];
    // SAFETY: all zeros are a valid message header.
    let mut header: msghdr = unsafe { core::mem::zeroed() };
    header.msg_control = bytes.as_mut_ptr().cast();
    header.msg_controllen = room;
    // SAFETY: `bytes` is at least as long as the `room` of every test.
    let result = unsafe { give_left(&header, 0x0403_0201) };
    (result, bytes)
}

#[test]
fn bytes_left_are_stored_as_far_as_there_is_room() {
    for (room, len, flags) in [
        (0, 0, libc::MSG_CTRUNC),
        (15, 0, libc::MSG_CTRUNC),
        (16, 16, libc::MSG_CTRUNC),
        (18, 18, libc::MSG_CTRUNC),
        (19, 19, libc::MSG_CTRUNC),
        (20, 20, 0),
        (24, 24, 0),
        (32, 24, 0),
    ] {
        let (result, bytes) = give_left_in(room);
        assert_eq!(result, Ok((len, flags)), "room for {room} bytes");
        if room < 16 {
            assert_eq!(bytes, [0xee; 32]);
            continue;
        }
        assert_eq!(bytes[..8], room.min(20).to_ne_bytes());
        assert_eq!(bytes[8..12], libc::IPPROTO_TCP.to_ne_bytes());
        assert_eq!(bytes[12..16], TCP_INQ.to_ne_bytes());
        let value = room.min(20) - 16;
        assert_eq!(bytes[16..16 + value], [1, 2, 3, 4][..value]);
        assert!(bytes[16 + value..].iter().all(|&byte| byte == 0xee), "room for {room} bytes");
    }
}

#[test]
fn the_bytes_left_in_inaccessible_control_messages_are_efault() {
    start();
    let scratch = Scratch::new();
    for at in [scratch.end(), scratch.edge(12), scratch.edge(18)] {
        // SAFETY: all zeros are a valid message header.
        let mut header: msghdr = unsafe { core::mem::zeroed() };
        (header.msg_control, header.msg_controllen) = (at as *mut c_void, 64);
        // SAFETY: the test owns the memory, which cannot be written in full.
        assert_eq!(unsafe { give_left(&header, 1) }, Err(libc::EFAULT));
    }
}
