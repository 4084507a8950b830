use super::*;
use crate::tests;

const NAMES: [&core::ffi::CStr; 3] = [c"read", c"connect", c"getpid"];

#[test]
fn look_ups_everywhere_and_in_a_library_find_libcs_functions() {
    tests::start();
    // SAFETY: all names are C strings, and all handles are valid.
    unsafe {
        let library = dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        assert!(!library.is_null());
        for name in NAMES {
            let wanted = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            assert!(!wanted.is_null());
            assert_eq!(dlsym(libc::RTLD_DEFAULT, name.as_ptr()), wanted, "{name:?}");
            assert_eq!(dlsym(libc::RTLD_NEXT, name.as_ptr()), wanted, "{name:?}");
            assert_eq!(dlsym(library, name.as_ptr()), wanted, "{name:?}");
        }
        assert_eq!(libc::dlclose(library), 0);
    }
}

#[test]
fn a_missing_name_or_library_is_null_and_reported_by_dlerror() {
    tests::start();
    let name = c"sovia_no_such_function".as_ptr();
    // SAFETY: all names are C strings, and glibc defines the pseudo handle.
    unsafe {
        libc::dlerror();
        assert!(dlsym(libc::RTLD_DEFAULT, name).is_null());
        assert!(!libc::dlerror().is_null());
        let library = dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        assert!(dlsym(library, name).is_null());
        assert!(!libc::dlerror().is_null());
        assert_eq!(libc::dlclose(library), 0);
        assert!(dlopen(c"/no/such/library.so".as_ptr(), libc::RTLD_NOW).is_null());
        assert!(!libc::dlerror().is_null());
    }
}

#[test]
fn a_library_that_is_opened_deep_is_noted() {
    tests::start();
    let how = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_DEEPBIND;
    // SAFETY: the name is a C string.
    unsafe {
        let library = dlopen(c"libc.so.6".as_ptr(), how);
        assert!(OPENED_DEEP.load(Ordering::Relaxed));
        assert_eq!(libc::dlclose(library), 0);
    }
}

#[test]
fn libcs_own_look_up_is_not_the_hook() {
    // SAFETY: the name is a C string, and glibc defines the pseudo handle.
    let found = unsafe { real_dlsym()(libc::RTLD_DEFAULT, c"getpid".as_ptr()) };
    assert_eq!(found as usize, libc::getpid as *const () as usize);
    assert_eq!(real_address(), libc::dlsym as *const () as usize);
    assert_ne!(real_address(), dlsym as *const () as usize);
}
