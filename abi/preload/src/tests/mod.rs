//! Brings up the library within its test program, and makes calls through the hooks.

#[path = "../../../testing/kernel.rs"]
pub(crate) mod kernel;

use std::sync::Once;

/// Does what the constructor does, but for what the system's rules and the variables say.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        kernel::watch();
        crate::real::resolve_all();
        crate::process::resolve_variadic();
        crate::process::start();
        crate::handles::start();
        crate::signals::start();
        crate::jumps::start();
        crate::heap::start();
        crate::stdio::start();
        sovia_sockets::start();
    });
}

#[test]
fn calls_of_libc_by_the_test_program_reach_libc() {
    start();
    let hook = crate::receive::read as *const () as usize;
    assert_ne!(libc::read as *const () as usize, hook);
    assert_eq!(crate::receive::reals::read.address(), libc::read as *const () as usize);
}
