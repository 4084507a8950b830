use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;

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
    // Lengths that are right, too short, too long, and zero; memory that ends within a header, or within its data.
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
            // SAFETY: all zeros are a message without anything.
            let mut message: msghdr = unsafe { core::mem::zeroed() };
            (message.msg_control, message.msg_controllen) = (at as *mut c_void, room);
            passing(-1, &raw const message);
        }
    }
    passing(-1, scratch.end() as *const msghdr);
    assert!(table::conn(-1).is_none());
}
