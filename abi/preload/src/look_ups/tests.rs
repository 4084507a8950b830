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
        assert_eq!(real.address(), wanted);
        assert_eq!(real.callable(), wanted);
    }
}

#[test]
fn fortified_functions_have_their_own_real_functions() {
    start();
    let plain = crate::receive::reals::recv.address();
    let fortified = crate::receive::reals::__recv_chk.address();
    assert!(fortified != 0 && fortified != plain);
}
