use super::*;
use crate::tests::kernel::Scratch;
use crate::tests::start;

#[test]
fn results_become_numbers_and_errors_minus_one_with_errno() {
    set_errno(12345);
    assert_eq!(finish(Ok(0)), 0);
    assert_eq!(finish(Ok(isize::MAX as usize)), isize::MAX);
    assert_eq!(errno(), 12345, "a success leaves errno");
    for error in [libc::EPERM, libc::EAGAIN, libc::EPIPE, libc::ECONNRESET] {
        assert_eq!(finish(Err(error)), -1);
        assert_eq!(errno(), error);
    }
}

#[test]
fn negative_results_of_libc_are_errors() {
    set_errno(libc::EINTR);
    assert_eq!(outcome(5), Ok(5));
    assert_eq!(outcome(0), Ok(0));
    assert_eq!(outcome(-1), Err(libc::EINTR));
    assert_eq!(outcome(isize::MIN), Err(libc::EINTR));
}

#[test]
fn errno_belongs_to_a_thread() {
    set_errno(libc::EIO);
    std::thread::spawn(|| set_errno(libc::EBADF)).join().unwrap();
    assert_eq!(errno(), libc::EIO);
}

#[test]
fn bad_pointers_are_those_into_the_first_page() {
    for (address, is_bad_address) in [(0, true), (1, true), (4095, true), (4096, false)] {
        assert_eq!(is_bad(address as *const u8), is_bad_address, "{address}");
    }
}

#[test]
fn values_are_taken_and_given_at_any_alignment_and_refused_where_memory_ends() {
    start();
    let scratch = Scratch::new();
    for len in 0..16 {
        let at = scratch.edge(len) as *mut u64;
        // SAFETY: every bit pattern is a valid `u64`. The test owns the memory, which may be inaccessible.
        unsafe {
            let wanted = if len < 8 { Err(libc::EFAULT) } else { Ok(()) };
            assert_eq!(give(at, 0x0123_4567_89ab_cdef), wanted, "{len} bytes");
            assert_eq!(take(at), wanted.map(|()| 0x0123_4567_89ab_cdef_u64), "{len} bytes");
        }
    }
    // SAFETY: every bit pattern is a valid `u8`, and nothing is mapped at the addresses.
    unsafe {
        assert_eq!(take::<u8>(core::ptr::null()), Err(libc::EFAULT));
        assert_eq!(take_if::<u8>(core::ptr::null()), Ok(None));
        assert_eq!(take_if::<u8>(8 as *const u8), Err(libc::EFAULT));
        assert_eq!(give(0xdead_0000_0000_0000usize as *mut u8, 1), Err(libc::EFAULT));
    }
}

#[test]
fn masks_are_taken_without_faults_of_memory() {
    start();
    let scratch = Scratch::new();
    let bits = |mask: &sigset_t| {
        // SAFETY: a mask is longer than 8 bytes, and every bit pattern is a valid `u64`.
        unsafe { core::ptr::from_ref(mask).cast::<u64>().read() }
    };
    // SAFETY: the pointers are null, to a variable of this function, or into the test's `Scratch`.
    unsafe {
        let all = u64::MAX;
        let taken = take_mask((&raw const all).cast()).unwrap().unwrap();
        assert_eq!(bits(&taken), !(1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1)));
        assert!(take_mask(core::ptr::null()).unwrap().is_none());
        assert_eq!(take_mask(scratch.end() as *const _).err(), Some(libc::EFAULT));
        assert_eq!(take_mask(scratch.edge(7) as *const _).err(), Some(libc::EFAULT));
        // The kernel's masks have 8 bytes, and libc's masks have more.
        assert!(take_mask(scratch.edge(8) as *const _).unwrap().is_some());
    }
}
