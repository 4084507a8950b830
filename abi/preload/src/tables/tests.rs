use super::*;
use core::ffi::CStr;
use libc::{c_int, c_void, size_t};
use std::collections::BTreeMap;

/// Returns the names of the functions in the test program's relocations, each with the address that the linker has
/// stored.
fn own_table() -> BTreeMap<String, usize> {
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _: size_t, found: *mut c_void) -> c_int {
        // SAFETY: `info` is the linker's description of the first object, the program. `found` is the variable
        // below.
        let (info, found) = unsafe { (&*info, &mut *found.cast::<BTreeMap<String, usize>>()) };
        let base = info.dlpi_addr as usize;
        let dynamic = headers(info).iter().find(|header| header.p_type == libc::PT_DYNAMIC);
        let dynamic = base + dynamic.expect("a dynamic program").p_vaddr as usize;
        assert!(extent(info).contains(&dynamic));
        // SAFETY: the program itself stays loaded.
        unsafe {
            let table = Table::read(base, dynamic).expect("symbols and their names");
            table.for_each(|slot, name, _| {
                let name = CStr::from_ptr(name).to_str().unwrap().to_owned();
                let bound = (*slot).load(core::sync::atomic::Ordering::Relaxed);
                found.insert(name, bound);
            });
        }
        1
    }
    let mut found = BTreeMap::new();
    // SAFETY: `look` gets the address of `found`, which lives during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

#[test]
fn the_table_of_a_program_has_the_functions_that_it_calls() {
    let table = own_table();
    for (name, wanted) in [
        ("dl_iterate_phdr", libc::dl_iterate_phdr as *const () as usize),
        ("dlsym", libc::dlsym as *const () as usize),
        ("mprotect", libc::mprotect as *const () as usize),
    ] {
        assert_eq!(table.get(name), Some(&wanted), "{name}");
    }
    assert!(!table.contains_key(""));
}

#[test]
fn an_object_without_symbols_has_no_table() {
    let entries = [Dynamic { tag: DT_STRTAB, value: 8 }, Dynamic { tag: DT_NULL, value: 0 }];
    // SAFETY: the section ends with DT_NULL.
    assert!(unsafe { Table::read(0, entries.as_ptr() as usize) }.is_none());
}

#[test]
fn an_object_extends_from_its_first_segment_to_its_last() {
    // SAFETY: all zeros are a valid program header.
    let segment = |kind, begin, len| unsafe {
        let mut header: libc::Elf64_Phdr = core::mem::zeroed();
        (header.p_type, header.p_vaddr, header.p_memsz) = (kind, begin, len);
        header
    };
    let segments = [
        segment(libc::PT_LOAD, 0x3000, 0x800),
        segment(libc::PT_DYNAMIC, 0x9000, 0x100),
        segment(libc::PT_LOAD, 0x1000, 0x200),
    ];
    // SAFETY: all zeros are a valid `dl_phdr_info`.
    let mut info: dl_phdr_info = unsafe { core::mem::zeroed() };
    assert!(headers(&info).is_empty());
    assert_eq!(extent(&info), 0..0);
    info.dlpi_addr = 0x10_0000;
    info.dlpi_phdr = segments.as_ptr();
    info.dlpi_phnum = 3;
    assert_eq!(extent(&info), 0x10_1000..0x10_3800);
    // Between its segments lie other objects.
    for (address, is_in) in [
        (0x10_0fff, false),
        (0x10_1000, true),
        (0x10_1200, false),
        (0x10_37ff, true),
        (0x10_3800, false),
    ] {
        assert_eq!(contains(&info, address), is_in, "{address:#x}");
    }
}
