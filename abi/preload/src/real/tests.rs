use super::*;
use crate::tests::kernel::of_c;
use crate::tests::start;

#[test]
fn functions_of_libc_are_found_under_their_names() {
    start();
    for (real, wanted) in [
        (&crate::receive::reals::recv, libc::recv as *const () as usize),
        (&crate::send::reals::writev, libc::writev as *const () as usize),
        (&crate::poll::reals::poll, libc::poll as *const () as usize),
        (&crate::sockets::reals::accept4, libc::accept4 as *const () as usize),
        (&crate::signals::reals::sigaction, libc::sigaction as *const () as usize),
    ] {
        assert_eq!(real.address(), wanted, "{:?}", real.name);
        assert_eq!(real.callable(), wanted, "{:?}", real.name);
    }
}

#[test]
fn fortified_functions_have_their_own_real_functions() {
    start();
    let plain = crate::receive::reals::recv.address();
    let fortified = crate::receive::reals::__recv_chk.address();
    assert!(fortified != 0 && fortified != plain);
}

#[test]
fn a_function_that_libc_lacks_fails_with_enosys() {
    static LACKING: Real = Real::new(c"sovia_no_such_function");
    assert_eq!(LACKING.address(), 0);
    // SAFETY: the address is that of `missing`, which reads no arguments.
    let call = unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn(i32, i32) -> isize>(LACKING.callable())
    };
    // SAFETY: `missing` reads no arguments and always returns.
    assert_eq!(of_c(|| unsafe { call(1, 2) }), Err(libc::ENOSYS));
}

#[test]
fn an_address_is_looked_up_once() {
    static READ: Real = Real::new(c"read");
    let found = READ.address();
    assert_ne!(found, 0);
    assert_eq!(READ.address.load(Ordering::Relaxed), found);
    READ.address.store(found + 1, Ordering::Relaxed);
    assert_eq!(READ.address(), found + 1);
    assert_eq!(READ.resolve(), found);
}
