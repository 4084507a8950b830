//! Which points stall, and for how long.

use super::{At, KINDS};
use crate::call::{self, Sysno};
use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The process whose schedule this is: a forked child has its own.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The owner before that.
static BEFORE: AtomicI32 = AtomicI32::new(0);
static STARTING: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicU32 = AtomicU32::new(0);
static LONGEST_MS: AtomicU64 = AtomicU64::new(0);
static DICE: AtomicU64 = AtomicU64::new(0);
/// How many forks lie between the first process and this one, as far as each process in between came to a point.
static CHILD: AtomicU64 = AtomicU64::new(0);

/// One kind of point.
struct Kind {
    passed: AtomicU64,
    /// The pass at which the next stall is.
    next: AtomicU64,
}

static POINTS: [Kind; KINDS] =
    [const { Kind { passed: AtomicU64::new(0), next: AtomicU64::new(u64::MAX) } }; KINDS];

/// A point at which the calling thread may stall.
#[inline]
pub fn point(at: At) {
    if OWNER.load(Ordering::Relaxed) != call::getpid() {
        start();
    }
    let kind = &POINTS[at as usize];
    let passed = kind.passed.fetch_add(1, Ordering::Relaxed);
    if passed == kind.next.load(Ordering::Relaxed) {
        stall(at, kind, passed);
    }
}

/// A number of the schedule: each differs, and the order in which they are drawn is the threads'.
fn roll() -> u64 {
    let state = DICE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// How many passes until the next stall: of every order of magnitude as often.
fn gap() -> u64 {
    let span = 1u64 << (roll() % 15);
    1 + roll() % span
}

#[cold]
fn start() {
    if STARTING.swap(true, Ordering::AcqRel) {
        return;
    }
    let (me, before) = (call::getpid(), OWNER.load(Ordering::Relaxed));
    if me == BEFORE.load(Ordering::Relaxed) {
        // A child by vfork had the memory for a moment.
        OWNER.store(me, Ordering::Release);
    } else if before != me {
        BEFORE.store(before, Ordering::Relaxed);
        let (seed, count, longest) = setting().unwrap_or((0, 0, 0));
        let child = CHILD.fetch_add(1, Ordering::Relaxed);
        DICE.store(seed ^ program() ^ child << 32, Ordering::Relaxed);
        LONGEST_MS.store(longest, Ordering::Relaxed);
        LEFT.store(count as u32, Ordering::Relaxed);
        for kind in &POINTS {
            kind.passed.store(0, Ordering::Relaxed);
            // A run stalls at some kinds only, so that frequent ones leave something to the others.
            let first = if count > 0 && roll().is_multiple_of(2) { gap() - 1 } else { u64::MAX };
            kind.next.store(first, Ordering::Relaxed);
        }
        OWNER.store(me, Ordering::Release);
    }
    STARTING.store(false, Ordering::Release);
}

#[cold]
fn stall(at: At, kind: &Kind, passed: u64) {
    let more = |left: u32| left.checked_sub(1);
    if LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
        kind.next.store(u64::MAX, Ordering::Relaxed);
        return;
    }
    kind.next.store(kind.passed.load(Ordering::Relaxed) + gap(), Ordering::Relaxed);
    let longest = LONGEST_MS.load(Ordering::Relaxed).max(1);
    let ms = longest / 4 + roll() % (longest - longest / 4).max(1);
    log(at, passed, ms);
    let mut left = libc::timespec {
        tv_sec: (ms / 1000) as libc::time_t,
        tv_nsec: (ms % 1000 * 1_000_000) as _,
    };
    let at = &raw mut left;
    // SAFETY: the kernel reads and writes the one timespec, which outlives the call. A signal's
    // handler runs within the stall, which then goes on.
    while unsafe { syscalls::syscall!(Sysno::nanosleep, at, at) } == Err(call::Errno::EINTR) {}
}

fn setting() -> Option<(u64, u64, u64)> {
    // SAFETY: the name is a C string; the value is read before the program could change it.
    let value = unsafe { libc::getenv(c"SOVIA_STALL".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv gave it, so it is a C string.
    let value = unsafe { CStr::from_ptr(value) }.to_str().ok()?;
    let mut numbers = value.split(',').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The same for each run of a program in a role: the name of its file, and its first argument.
fn program() -> u64 {
    let mut line = [0; 512];
    let Ok(fd) = call::open(c"/proc/self/cmdline", libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return 0;
    };
    let len = call::read(fd, &mut line).unwrap_or(0);
    let _ = call::close(fd);
    let mut words = line[..len].split(|&byte| byte == 0);
    let file = words.next().and_then(|path| path.rsplit(|&byte| byte == b'/').next());
    let bytes = file.into_iter().chain(words.next()).flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A line of text without an allocation.
struct Line([u8; 128], usize);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let rest = self.0.get_mut(self.1..).and_then(|rest| rest.get_mut(..text.len()));
        rest.ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}

fn log(at: At, passed: u64, ms: u64) {
    // SAFETY: as in `setting`.
    let path = unsafe { libc::getenv(c"SOVIA_STALL_LOG".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: getenv gave it, so it is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    let mut line = Line([0; 128], 0);
    let (process, thread) = (call::getpid(), call::gettid());
    let _ = writeln!(line, "{process} {thread} {at:?} {passed} {ms} ms");
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    if let Ok(fd) = call::open(path, flags, 0o600) {
        let _ = call::write(fd, line.0.get(..line.1).unwrap_or_default());
        let _ = call::close(fd);
    }
}
