use super::*;
use core::ptr::null;

/// Looks `name` up in all objects after the test program.
fn find(name: &CStr) -> Found {
    let mut found = Found::Nothing;
    for_each_later_object(&mut |object| {
        found = object.find(name, hash(name));
        if found == Found::Nothing { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found
}

fn of_linker(name: &CStr) -> usize {
    // SAFETY: the name is a C string, and glibc defines the pseudo handle.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
}

#[test]
fn functions_have_the_addresses_that_the_linker_finds() {
    // The last four have an older version besides the default one.
    for name in [
        c"read",
        c"close",
        c"epoll_wait",
        c"__read_chk",
        c"_exit",
        c"fopen",
        c"fclose",
        c"posix_spawn",
        c"regexec",
        c"pthread_cond_wait",
    ] {
        assert_eq!(find(name), Found::Function(of_linker(name)), "{name:?}");
    }
}

#[test]
fn what_is_no_plain_function_is_left_to_the_linker() {
    // A resolver chooses the implementation of memcpy. The second is a variable.
    for name in [c"memcpy", c"environ"] {
        assert_eq!(find(name), Found::Other, "{name:?}");
    }
}

#[test]
fn names_that_no_object_defines_are_not_found() {
    for name in [c"sovia_no_such_function", c"", c"rea", c"read_"] {
        assert_eq!(find(name), Found::Nothing, "{name:?}");
    }
}

#[test]
fn the_hash_is_that_of_the_specification() {
    for (name, wanted) in [(c"", 0x1505), (c"printf", 0x156b_2bb8), (c"exit", 0x7c96_7e3f)] {
        assert_eq!(hash(name), wanted, "{name:?}");
    }
}

#[test]
fn an_object_without_a_table_by_hash_is_left_to_the_linker() {
    // SAFETY: all zeros are a valid `dl_phdr_info`.
    let info: dl_phdr_info = unsafe { core::mem::zeroed() };
    assert_eq!(info.dlpi_phdr, null());
    // SAFETY: there is no object that could be closed.
    assert!(unsafe { Object::read(&info) }.is_none());
}
