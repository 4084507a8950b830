//! Schedule of the stalls: at which points, and for how long.

use super::{At, KINDS};
use crate::call::{self, Sysno};
use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The process that owns this schedule. A forked child makes its own.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The owner before the present one.
static BEFORE: AtomicI32 = AtomicI32::new(0);
static STARTING: AtomicBool = AtomicBool::new(false);
static LEFT: AtomicU32 = AtomicU32::new(0);
static LONGEST_MS: AtomicU64 = AtomicU64::new(0);
static DICE: AtomicU64 = AtomicU64::new(0);
/// Number of forks between the first process and this one. Counts only processes that reached a point.
static CHILD: AtomicU64 = AtomicU64::new(0);

/// State of one kind of point.
struct Kind {
    passed: AtomicU64,
    /// The number of the pass at which the next stall happens.
    next: AtomicU64,
}

static POINTS: [Kind; KINDS] =
    [const { Kind { passed: AtomicU64::new(0), next: AtomicU64::new(u64::MAX) } }; KINDS];

/// Marks a point at which the calling thread may stall.
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

/// Returns the schedule's next pseudorandom number. The timing of the threads decides which thread gets which
/// number.
fn roll() -> u64 {
    let state = DICE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Returns the number of passes until the next stall. Every order of magnitude is equally likely.
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
        // A child made by vfork had this memory for a moment.
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
            // In each run only some kinds stall, so that frequent kinds do not use up all stalls.
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
    // SAFETY: the kernel reads and writes only this timespec, which outlives the call. A signal handler may run
    // during the stall, which then continues.
    while unsafe { syscalls::syscall!(Sysno::nanosleep, at, at) } == Err(call::Errno::EINTR) {}
}

fn setting() -> Option<(u64, u64, u64)> {
    // SAFETY: the name is a C string. This function reads the value before the program can change it.
    let value = unsafe { libc::getenv(c"SOVIA_STALL".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: `getenv` returns null or a C string, and the pointer is not null.
    let value = unsafe { CStr::from_ptr(value) }.to_str().ok()?;
    let mut numbers = value.split(',').map(|number| number.trim().parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// Returns a hash of the program's file name and first argument, which is equal in each run of the same command.
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

/// A line of text, without an allocation.
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
    // SAFETY: the name is a C string. This function reads the value before the program can change it.
    let path = unsafe { libc::getenv(c"SOVIA_STALL_LOG".as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: `getenv` returns null or a C string, and the pointer is not null.
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
