use super::*;
use crate::tests;

#[test]
fn the_guard_of_jump_buffers_is_found() {
    tests::start();
    assert!(IS_KNOWN.load(Ordering::Relaxed), "this libc keeps addresses in another way");
    let mut found = [0; 2];
    // SAFETY: `found` has room for both words.
    unsafe { keep_stack(&raw mut found) };
    assert_eq!(turned_back(found[1]) ^ GUARD.load(Ordering::Relaxed), found[0]);
    let here = (&raw const found) as usize;
    assert!(here.abs_diff(found[0]) < 4096, "{here:x}, {found:x?}");
}

#[test]
fn the_guard_is_the_same_at_every_depth() {
    assert_eq!(find_guard(), find_deeper());
}

#[test]
fn a_jump_without_a_buffer_is_left_to_libc() {
    tests::start();
    before_jump(core::ptr::null());
    before_context(core::ptr::null());
    assert!(!chain::is_in_handler());
}
