use super::*;
use crate::tests::kernel::of_c;

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
