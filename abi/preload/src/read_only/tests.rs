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

/// Returns pages that belong to the test.
fn pages(scratch: &mut Scratch, count: usize) -> Range<usize> {
    scratch.clear();
    let first = scratch.edge(count * 4096);
    first..first + count * 4096
}

#[test]
fn read_only_pages_can_be_written_to_for_a_while() {
    let mut scratch = Scratch::new();
    let pages = pages(&mut scratch, 2);
    assert!(protect(&pages, libc::PROT_READ));
    {
        let _writable = Writable::begin(&pages).unwrap();
        for at in [pages.start, pages.end - size_of::<usize>()] {
            // SAFETY: the word lies in the test's own pages, which are writable here.
            unsafe { (at as *mut usize).write(7) };
        }
    }
    for at in [pages.start, pages.end - size_of::<usize>()] {
        // SAFETY: the word lies in the test's own pages, which stay readable.
        assert_eq!(unsafe { (at as *const usize).read() }, 7);
        assert!(!is_writable(at));
    }
    assert!(protect(&pages, libc::PROT_READ | libc::PROT_WRITE));
}

#[test]
fn what_the_linker_leaves_writable_stays_so() {
    let mut scratch = Scratch::new();
    let pages = pages(&mut scratch, 1);
    // The linker leaves a page writable if only part of the page must be read-only.
    for read_only in [0..0, pages.start..pages.start + 100] {
        drop(Writable::begin(&read_only).unwrap());
        assert!(is_writable(pages.start));
    }
}

#[test]
fn pages_that_are_not_there_cannot_be_made_writable() {
    assert!(Writable::begin(&(4096..8192)).is_none());
}
