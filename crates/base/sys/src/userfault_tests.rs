use super::*;
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;
const PAGES: usize = 16;

/// Returns addresses for one test, far from those that the kernel gives to other tests. So no other test gets
/// memory that this test unmaps.
fn place() -> Range<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0x2000_0000_0000);
    let start = NEXT.fetch_add(1 << 30, Ordering::Relaxed);
    start..start + PAGES * PAGE
}

fn map(at: &Range<usize>, flags: i32) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let len = at.len();
    // SAFETY: only this test uses these addresses.
    let got = unsafe {
        syscalls::syscall!(Sysno::mmap, at.start, len, access, flags, usize::MAX, 0usize)
    };
    assert_eq!(got, Ok(at.start));
}

fn advise(at: &Range<usize>, advice: i32) {
    // SAFETY: only this test uses these addresses.
    let advised = unsafe { syscalls::syscall!(Sysno::madvise, at.start, at.len(), advice) };
    assert_eq!(advised, Ok(0));
}

fn unmap(at: &Range<usize>) {
    // SAFETY: only this test uses these addresses.
    let unmapped = unsafe { syscalls::syscall!(Sysno::munmap, at.start, at.len()) };
    assert_eq!(unmapped, Ok(0));
}

/// Returns watched memory, or `None` if the kernel forbids userfaultfd.
fn watched() -> Option<(Userfault, Range<usize>)> {
    let userfault = Userfault::new().ok()?;
    let place = place();
    map(&place, libc::MAP_FIXED_NOREPLACE);
    userfault.watch(&place).unwrap();
    assert!(userfault.is_quiet());
    assert_eq!(userfault.read(), Err(Errno::EAGAIN));
    Some((userfault, place))
}

/// Runs `take` in another thread and returns all its events. That thread waits until this one has read them.
fn told(userfault: &Userfault, take: impl FnOnce() + Send) -> Vec<Event> {
    let events = std::thread::scope(|scope| {
        let taker = scope.spawn(take);
        userfault.wait();
        let quiet = userfault.is_quiet();
        let mut events = Vec::new();
        while !taker.is_finished() {
            match userfault.read() {
                Ok(event) => events.extend(event),
                Err(_) => call::sched_yield(),
            }
        }
        assert!(!quiet, "there was an event that had not been read");
        events
    });
    assert!(userfault.is_quiet());
    assert_eq!(userfault.read(), Err(Errno::EAGAIN));
    events
}

#[test]
fn every_removal_of_memory_is_an_event() {
    let Some((userfault, place)) = watched() else { return };
    let page = |n: usize| place.start + n * PAGE..place.start + (n + 1) * PAGE;
    let emptied = told(&userfault, || advise(&page(1), libc::MADV_DONTNEED));
    assert_eq!(emptied, [Event::Emptied(page(1))]);
    let emptied = told(&userfault, || advise(&page(2), libc::MADV_FREE));
    assert_eq!(emptied, [Event::Emptied(page(2))]);
    assert_eq!(told(&userfault, || unmap(&page(3))), [Event::Unmapped(page(3))]);
    let replaced = told(&userfault, || map(&page(5), libc::MAP_FIXED));
    assert_eq!(replaced, [Event::Unmapped(page(5))]);
    let elsewhere = place.start + (1 << 29);
    let moved = told(&userfault, || {
        let (flags, from) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, page(7));
        // SAFETY: only this test uses both ranges.
        let moved =
            unsafe { syscalls::syscall!(Sysno::mremap, from.start, PAGE, PAGE, flags, elsewhere) };
        assert_eq!(moved, Ok(elsewhere));
    });
    assert_eq!(moved, [Event::Moved(page(7)), Event::Unmapped(page(7))]);
    let there = elsewhere..elsewhere + PAGE;
    assert_eq!(told(&userfault, || unmap(&there)), [Event::Unmapped(there.clone())]);
    drop(userfault);
    unmap(&place);
}

#[test]
fn no_fault_is_delivered() {
    let Some((userfault, place)) = watched() else { return };
    let mut bytes = [7u8; 100];
    // Pages that neither this test nor the kernel has touched yet.
    let from = std::fs::File::open("/dev/zero").unwrap();
    let to = place.start as *mut u8;
    use std::os::fd::AsRawFd;
    // SAFETY: this is the first page of the test's own memory.
    let page = unsafe { core::slice::from_raw_parts_mut(to, PAGE) };
    assert_eq!(call::read(from.as_raw_fd(), page), Ok(PAGE));
    // SAFETY: the bytes lie within the test's second and third page.
    unsafe { to.add(2 * PAGE - 50).copy_from(bytes.as_ptr(), 100) };
    // SAFETY: the bytes lie within the test's second and third page.
    unsafe { to.add(2 * PAGE - 50).copy_to(bytes.as_mut_ptr(), 100) };
    assert_eq!(bytes, [7; 100]);
    assert_eq!(userfault.read(), Err(Errno::EAGAIN));
    drop(userfault);
    unmap(&place);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let Some((userfault, place)) = watched() else { return };
    let code = watched as *const () as usize & !(PAGE - 1);
    assert!(userfault.watch(&(code..code + PAGE)).is_err());
    let other = Userfault::new().unwrap();
    assert_eq!(other.watch(&place), Err(Errno::EBUSY));
    drop(userfault);
    assert_eq!(other.watch(&place), Ok(()));
    drop(other);
    unmap(&place);
}
