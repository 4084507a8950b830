use super::*;
use crate::tests::kernel::Scratch;
use std::fs;

/// Returns true if the kernel lets a process write to an address.
fn is_writable(at: usize) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(begin)..number(end)).contains(&at)
    };
    maps.lines().find(holds).unwrap().contains(" rw")
}

fn protect(at: usize, how: c_int) {
    // SAFETY: a page of the test's.
    assert_eq!(unsafe { libc::mprotect(at as *mut c_void, 4096, how) }, 0);
}

#[test]
fn a_word_in_a_read_only_page_is_replaced_and_the_page_stays_read_only() {
    let mut scratch = Scratch::new();
    scratch.clear();
    let page = scratch.edge(4096);
    protect(page, libc::PROT_READ);
    let slot = (page + 64) as *const AtomicUsize;
    let range = page..page + 4096;
    // SAFETY: a word of the test's own page.
    unsafe {
        assert!(exchange(&range, slot, 0, 7));
        assert_eq!((*slot).load(Ordering::Relaxed), 7);
        assert!(!is_writable(page));
        assert!(exchange(&range, slot, 0, 9), "the page can be written");
        assert_eq!((*slot).load(Ordering::Relaxed), 7, "another value stays");
    }
    protect(page, libc::PROT_READ | libc::PROT_WRITE);
}

#[test]
fn a_word_outside_of_what_is_read_only_stays_writable() {
    let mut scratch = Scratch::new();
    scratch.clear();
    let page = scratch.edge(4096);
    let slot = page as *const AtomicUsize;
    // The linker leaves a page writable if only a part of it must be read-only.
    for range in [0..0, page - 4096..page + 100] {
        // SAFETY: a word of the test's own page.
        unsafe {
            let old = (*slot).load(Ordering::Relaxed);
            assert!(exchange(&range, slot, old, old + 1));
            assert_eq!((*slot).load(Ordering::Relaxed), old + 1);
        }
        assert!(is_writable(page));
    }
}
