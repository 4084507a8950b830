//! Tests that system calls with unmapped structures fail with EFAULT, as in the kernel, and do not end the program.

use super::kernel::{Scratch, kernel};
use super::{Pair, by_number, start};
use libc::c_long;

/// Makes calls with a bad address as one of the `arguments`, and expects EFAULT. `places` are the indexes of the
/// arguments to replace. A connection exists during the calls, so Sovia's fault handler is in place.
fn assert_efault(number: c_long, arguments: [usize; 6], places: &[usize]) {
    start();
    let _pair = Pair::accelerated();
    let scratch = Scratch::new();
    for &place in places {
        for bad in [scratch.end(), scratch.edge(4), 16, 0xdead_0000_0000_0000] {
            let mut arguments = arguments;
            arguments[place] = bad;
            let call = (number, arguments);
            assert_eq!(kernel(call), Err(libc::EFAULT), "argument {place} is {bad:x}");
            assert_eq!(by_number(call), Err(libc::EFAULT), "argument {place} is {bad:x}");
        }
    }
}

#[test]
fn rt_sigprocmask_of_unmapped_masks_is_efault() {
    let how = libc::SIG_BLOCK as usize;
    assert_efault(libc::SYS_rt_sigprocmask, [how, 0, 0, 8, 0, 0], &[1, 2]);
}

#[test]
fn rt_sigaction_of_unmapped_dispositions_is_efault() {
    let signal = libc::SIGUSR2 as usize;
    assert_efault(libc::SYS_rt_sigaction, [signal, 0, 0, 8, 0, 0], &[1, 2]);
}

#[test]
fn setrlimit_of_an_unmapped_limit_is_efault() {
    let limit = libc::RLIMIT_AS as usize;
    assert_efault(libc::SYS_setrlimit, [limit, 0, 0, 0, 0, 0], &[1]);
    assert_efault(libc::SYS_prlimit64, [0, limit, 0, 0, 0, 0], &[2, 3]);
}

#[test]
fn clone3_of_an_unmapped_structure_is_efault() {
    assert_efault(libc::SYS_clone3, [0, 88, 0, 0, 0, 0], &[0]);
}

#[test]
fn poll_and_epoll_of_unmapped_lists_are_efault() {
    assert_efault(libc::SYS_poll, [0, 1, 0, 0, 0, 0], &[0]);
    assert_efault(libc::SYS_ppoll, [0, 1, 0, 0, 8, 0], &[0, 2, 3]);
    assert_efault(libc::SYS_select, [64, 0, 0, 0, 0, 0], &[1, 2, 3, 4]);
    assert_efault(libc::SYS_pselect6, [64, 0, 0, 0, 0, 0], &[1, 2, 3, 4, 5]);
}
