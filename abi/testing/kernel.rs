//! Compares calls with the kernel. Each call is made twice with the same arguments: as a raw system call, and through the
//! code under test. Part of the unit tests of `sovia-calls` and `sovia-preload`.

use libc::{c_int, c_long};
use std::fmt::{Display, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

/// Result of a call, or its `errno`.
pub(crate) type Answer = Result<usize, c_int>;

/// A system call's number and arguments.
pub(crate) type Call = (c_long, [usize; 6]);

/// Seconds until the process ends itself, in case a call never returns.
const WATCHDOG: u32 = 100;

/// Starts the watchdog of the test program.
pub(crate) fn watch() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // SAFETY: takes a number; the default action of the signal ends the process.
        unsafe { libc::alarm(WATCHDOG) };
    });
}

/// Sets `errno`, so that a call that fails without setting it shows.
fn clear_errno() {
    // SAFETY: glibc's pointer to this thread's `errno`.
    unsafe { *libc::__errno_location() = 0 };
}

/// Turns a result as C has it into an [`Answer`].
pub(crate) fn answer(result: isize) -> Answer {
    // SAFETY: glibc's pointer to this thread's `errno`.
    usize::try_from(result).map_err(|_| unsafe { *libc::__errno_location() })
}

/// Makes a call through C and returns its [`Answer`].
pub(crate) fn of_c(call: impl FnOnce() -> isize) -> Answer {
    clear_errno();
    answer(call())
}

/// Calls that some machines have in a newer form alone. There the kernel does not know the tests' number, and libc makes
/// the call.
#[cfg(target_arch = "x86_64")]
#[allow(unused_imports, reason = "one of the crates needs none of them")]
pub(crate) use libc::{SYS_dup2, SYS_epoll_wait, SYS_poll, SYS_select};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use older::*;

#[cfg(not(target_arch = "x86_64"))]
#[allow(dead_code, non_upper_case_globals, reason = "as libc names them, for one of the crates")]
mod older {
    use libc::c_long;

    pub(crate) const SYS_dup2: c_long = -1;
    pub(crate) const SYS_poll: c_long = -2;
    pub(crate) const SYS_select: c_long = -3;
    pub(crate) const SYS_epoll_wait: c_long = -4;
}

/// Makes a raw system call.
#[allow(non_upper_case_globals, reason = "as libc names them")]
pub(crate) fn kernel((number, [a, b, c, d, e, f]): Call) -> Answer {
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as below.
    unsafe {
        use libc::{epoll_event, fd_set, pollfd, timeval};
        let (fd, n) = (a as c_int, c as c_int);
        match number {
            SYS_dup2 => return of_c(|| libc::dup2(fd, b as c_int) as isize),
            SYS_poll => return of_c(|| libc::poll(a as *mut pollfd, b as u64, n) as isize),
            SYS_select => {
                let (read, write, except) = (b as *mut fd_set, c as *mut fd_set, d as *mut fd_set);
                return of_c(|| libc::select(fd, read, write, except, e as *mut timeval) as isize);
            }
            SYS_epoll_wait => {
                let events = b as *mut epoll_event;
                return of_c(|| libc::epoll_wait(fd, events, n, d as c_int) as isize);
            }
            _ => {}
        }
    }
    // SAFETY: the tests pass addresses within a `Scratch`, or ones that the kernel refuses.
    of_c(|| unsafe { libc::syscall(number, a, b, c, d, e, f) } as isize)
}

/// Memory for the arguments of one call: four accessible pages, then one that is not.
#[derive(Debug)]
pub(crate) struct Scratch {
    base: usize,
    used: usize,
    /// Offsets of descriptor numbers and the like, which differ between the two calls.
    numbers: Vec<usize>,
}

const PAGE: usize = 4096;
const ROOM: usize = 4 * PAGE;

impl Scratch {
    pub(crate) fn new() -> Scratch {
        // SAFETY: a new mapping; one of its pages becomes inaccessible.
        unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let base = libc::mmap(core::ptr::null_mut(), ROOM + PAGE, access, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.byte_add(ROOM), PAGE, libc::PROT_NONE), 0);
            Scratch { base: base as usize, used: 0, numbers: Vec::new() }
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the accessible pages. Nothing else refers to them between two calls.
        unsafe { core::slice::from_raw_parts_mut(self.base as *mut u8, ROOM) }
    }

    /// Makes the memory as it was at first.
    pub(crate) fn clear(&mut self) {
        self.bytes().fill(0);
        self.used = 0;
        self.numbers.clear();
    }

    /// Reserves `len` bytes and returns their address.
    pub(crate) fn room(&mut self, len: usize) -> usize {
        let at = self.base + self.used;
        self.used = (self.used + len).next_multiple_of(16);
        assert!(self.used <= ROOM - PAGE, "the last page is for what ends at its end");
        at
    }

    /// Stores a value and returns its address.
    pub(crate) fn put<T: Copy>(&mut self, value: T) -> usize {
        let at = self.room(size_of::<T>());
        // SAFETY: just reserved, and aligned.
        unsafe { (at as *mut T).write(value) };
        at
    }

    /// Stores a descriptor number's surroundings: `fd` lies `offset` bytes behind the address of `value`.
    pub(crate) fn put_with_number<T: Copy>(&mut self, value: T, offset: usize) -> usize {
        let at = self.put(value);
        self.skip(at + offset);
        at
    }

    /// Leaves four bytes out of the comparison.
    pub(crate) fn skip(&mut self, at: usize) {
        self.numbers.push(at - self.base);
    }

    /// Address of `len` bytes that end where memory ends.
    pub(crate) fn edge(&self, len: usize) -> usize {
        self.end() - len
    }

    /// Stores a value whose first `len` bytes alone can be accessed.
    pub(crate) fn put_cut<T: Copy>(&mut self, value: T, len: usize) -> usize {
        let at = self.edge(len);
        // SAFETY: the accessible part of the value.
        unsafe {
            core::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), at as *mut u8, len);
        }
        at
    }

    /// Address of the inaccessible page.
    pub(crate) fn end(&self) -> usize {
        self.base + ROOM
    }

    /// Contents after a call, without descriptor numbers.
    fn contents(&mut self) -> Vec<u8> {
        let mut bytes = self.bytes().to_vec();
        for &at in &self.numbers {
            bytes[at..at + size_of::<c_int>()].fill(0);
        }
        bytes
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping.
        unsafe { libc::munmap(self.base as *mut _, ROOM + PAGE) };
    }
}

/// A call by its name, and what makes its arguments for a descriptor.
pub(crate) type Case = (&'static str, fn(&mut Scratch, c_int) -> Call);

/// Differences between the kernel and the code under test.
#[derive(Debug, Default)]
pub(crate) struct Differences(String);

impl Differences {
    /// Adds one.
    pub(crate) fn note(&mut self, name: &str, text: impl Display) {
        let _ = writeln!(self.0, "{name}: {text}");
    }

    /// Makes a call on descriptor `kernels` by `theirs`, and on `fd` by `ours`. Compares results and what was written.
    pub(crate) fn compare(
        &mut self,
        scratch: &mut Scratch,
        (name, call): Case,
        [kernels, fd]: [c_int; 2],
        theirs: fn(Call) -> Answer,
        ours: fn(Call) -> Answer,
    ) {
        scratch.clear();
        let made = call(scratch, kernels);
        let wanted = theirs(made);
        let wanted_bytes = scratch.contents();
        scratch.clear();
        let made = call(scratch, fd);
        let got = ours(made);
        let got_bytes = scratch.contents();
        if got != wanted {
            self.note(name, format_args!("{got:?}, the kernel says {wanted:?}"));
        }
        // A call that fails may have written a part.
        if wanted.is_ok()
            && let Some(at) = (0..ROOM).find(|&at| got_bytes[at] != wanted_bytes[at])
        {
            let (got, wanted) = (got_bytes[at], wanted_bytes[at]);
            self.note(name, format_args!("wrote {got} at {at}, the kernel {wanted}"));
        }
    }

    /// # Panics
    /// If there are any.
    pub(crate) fn assert_none(self) {
        assert!(self.0.is_empty(), "\n{}", self.0);
    }
}

/// Number of a descriptor that has been closed. No other code gets numbers from here up.
pub(crate) fn closed_number() -> c_int {
    static NEXT: AtomicI32 = AtomicI32::new(600);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
