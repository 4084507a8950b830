use super::*;
use crate::tests::kernel::SYS_dup2;
use crate::tests::{Pair, ours};

fn make(number: libc::c_long, arguments: [usize; 3]) -> Result<usize, c_int> {
    let [a, b, c] = arguments;
    ours((number, [a, b, c, 0, 0, 0]))
}

#[test]
fn new_number_drops_the_entry_of_a_closed_descriptor() {
    let pair = Pair::accelerated();
    let copy = make(libc::SYS_fcntl, [pair.fds[0] as usize, libc::F_DUPFD as usize, 400]).unwrap();
    let copy = copy as c_int;
    assert!(table::conn(copy).is_some());
    // The program closes `copy` without a hook, and the kernel gives the number of `copy` to a file.
    // SAFETY: the calls take numbers and a valid string.
    unsafe {
        assert_eq!(libc::close(copy), 0);
        let file = libc::memfd_create(c"file".as_ptr(), 0);
        assert_eq!(libc::dup2(file, copy), copy);
        libc::close(file);
    }
    set_errno(12345);
    assert_eq!(created(copy), copy);
    assert_eq!(errno(), 12345);
    assert!(table::conn(copy).is_none());
    assert!(pair.is_accelerated(), "the connection has its other number");
    assert_eq!(make(libc::SYS_close, [copy as usize, 0, 0]), Ok(0));
}

#[test]
fn a_failed_call_creates_nothing() {
    assert_eq!(created(-1), -1);
    assert_eq!(created(c_int::MIN), c_int::MIN);
}

#[test]
fn duplicates_by_every_call_refer_to_the_connection() {
    let pair = Pair::accelerated();
    let fd = pair.fds[0] as usize;
    let cloexec = libc::F_DUPFD_CLOEXEC as usize;
    for (number, arguments) in [
        (libc::SYS_dup, [fd, 0, 0]),
        (SYS_dup2, [fd, 410, 0]),
        (libc::SYS_dup3, [fd, 411, libc::O_CLOEXEC as usize]),
        (libc::SYS_fcntl, [fd, libc::F_DUPFD as usize, 412]),
        (libc::SYS_fcntl, [fd, cloexec, 413]),
    ] {
        let copy = make(number, arguments).unwrap();
        let same = table::conn(copy as c_int).zip(table::conn(fd as c_int));
        assert!(same.is_some_and(|(one, other)| one.same(other)), "system call {number}");
        assert_eq!(make(SYS_dup2, [copy, copy, 0]), Ok(copy));
        assert_eq!(make(libc::SYS_close, [copy, 0, 0]), Ok(0));
        assert!(table::is_blank(copy as c_int), "system call {number}");
        assert_eq!(make(libc::SYS_close, [copy, 0, 0]), Err(libc::EBADF));
    }
    assert!(pair.is_accelerated());
}

#[test]
fn failed_duplicate_leaves_the_target_number_alone() {
    let pair = Pair::accelerated();
    let [one, other] = pair.fds.map(|fd| fd as usize);
    for (number, arguments, error) in [
        (SYS_dup2, [usize::MAX, one, 0], libc::EBADF),
        (SYS_dup2, [590, one, 0], libc::EBADF),
        (libc::SYS_dup3, [one, one, 0], libc::EINVAL),
        (libc::SYS_dup3, [590, one, 0], libc::EBADF),
    ] {
        assert_eq!(make(number, arguments), Err(error), "{arguments:?}");
        assert!(pair.is_accelerated(), "{arguments:?}");
    }
    pair.send(0, b"still there");
    assert_eq!(pair.receive(1), b"still there");
    assert_ne!(one, other);
}

#[test]
fn dup3_with_unknown_flags_leaves_the_target_number_alone() {
    let pair = Pair::accelerated();
    let [one, other] = pair.fds.map(|fd| fd as usize);
    assert_eq!(make(libc::SYS_dup3, [other, one, 1]), Err(libc::EINVAL));
    assert!(pair.is_accelerated());
    pair.send(0, b"still there");
    assert_eq!(pair.receive(1), b"still there");
}
