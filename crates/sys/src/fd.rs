//! Private descriptors: owned, close-on-exec, and out of the program's way.

use crate::call::{self, RawFd, Result};
use crate::lock::RobustLock;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The number from which private descriptors are taken. Programs expect the lowest free numbers
/// for themselves, some close everything above a small one, and a very high number would make
/// the kernel's descriptor table (copied at each fork) large.
static PRIVATE_BASE: AtomicI32 = AtomicI32::new(0);
/// Whether the base lies above the program's own limit.
static LIFTED: AtomicI32 = AtomicI32::new(0);
static OBSERVER: AtomicUsize = AtomicUsize::new(0);
static DISPOSER: AtomicUsize = AtomicUsize::new(0);

/// Who is told of private descriptors, so that the program's own calls leave them alone: with
/// `true` when one has been made, with `false` before it is closed.
pub type Observer = fn(RawFd, bool);

/// Sets the observer; once, before any private descriptor is made.
pub fn observe(observer: Observer) {
    OBSERVER.store(observer as usize, Ordering::Release);
}

fn tell(fd: RawFd, made: bool) {
    let observer = OBSERVER.load(Ordering::Acquire);
    if observer != 0 {
        // SAFETY: only `observe` stores here, and only functions of this type.
        let observer = unsafe { core::mem::transmute::<usize, Observer>(observer) };
        observer(fd, made);
    }
}

/// Who closes descriptors that others have sent: that may take as long as the sender likes (a socket
/// that lingers, a file of a slow file system), and is none of the caller's business.
pub type Disposer = fn(Fd);

/// Sets the disposer; without one, whoever drops such a descriptor closes it.
pub fn dispose_by(disposer: Disposer) {
    DISPOSER.store(disposer as usize, Ordering::Release);
}

/// Numbers above the soft limit that are worth being lifted for.
const LIFT_ROOM: u64 = 256;

/// Held while the limit is lifted: who puts it back must have seen it as the program set it.
static LIMIT: RobustLock = RobustLock::new();

/// Around fork: the child gets the program's own limit, and nobody else's lock.
pub fn hold() {
    LIMIT.lock();
}

/// After fork, in both.
pub fn release() {
    LIMIT.unlock();
}

/// A program that can have fewer numbers than this, and no more, has counted them.
const COUNTED: u64 = 1024;

/// Whether there can be private descriptors at all without taking numbers that the program needs.
pub fn can_be_spared() -> bool {
    let base = private_base() as u64;
    let (soft, hard) = call::descriptor_limits();
    if LIFTED.load(Ordering::Relaxed) != 0 { hard > base } else { soft >= COUNTED }
}

/// Above this soft limit private descriptors go below it, not above.
const LIFT_MAX: u64 = 1 << 16;

fn private_base() -> RawFd {
    let base = PRIVATE_BASE.load(Ordering::Relaxed);
    if base != 0 {
        return base;
    }
    let (soft, hard) = call::descriptor_limits();
    let lift = soft <= LIFT_MAX && hard >= soft + LIFT_ROOM;
    let base = if lift {
        // A descriptor made while the limit is lifted stays when it is put back: the program loses
        // none of its own.
        soft as RawFd
    } else {
        let limit = soft.min(1024) as RawFd;
        (limit - 128).max(limit / 2).max(3)
    };
    LIFTED.store(i32::from(lift), Ordering::Relaxed);
    PRIVATE_BASE.store(base, Ordering::Relaxed);
    base
}

/// A duplicate at or above the private base.
fn duplicate_high(fd: RawFd) -> Result<RawFd> {
    let base = private_base() as usize;
    with_room(|| call::fcntl(fd, libc::F_DUPFD_CLOEXEC, base).map(|n| n as RawFd))
}

/// Calls `f`, in which the kernel may hand out more descriptors than the program's limit leaves. So
/// the number that a new one has until it is moved out of the way is missed by nobody.
pub(crate) fn with_room<T>(f: impl FnOnce() -> T) -> T {
    let base = private_base();
    if LIFTED.load(Ordering::Relaxed) == 0 {
        return f();
    }
    LIMIT.lock();
    let result = call::with_descriptor_limit(base as u64 + 4096, f);
    LIMIT.unlock();
    result
}

/// An owned private descriptor; closed on drop.
#[derive(Debug)]
pub struct Fd {
    raw: RawFd,
    /// Closing it may take long.
    foreign: bool,
}

impl Fd {
    /// Takes over a descriptor that the caller owns, and moves it up and out of the way.
    pub fn adopt(fd: RawFd) -> Fd {
        let owned = match duplicate_high(fd) {
            Ok(high) => {
                let _ = call::close(fd);
                Fd { raw: high, foreign: false }
            }
            Err(_) => Fd { raw: fd, foreign: false },
        };
        tell(owned.raw, true);
        owned
    }

    /// What `make` makes, moved out of the program's way.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn make(make: impl FnOnce() -> Result<RawFd>) -> Result<Fd> {
        with_room(make).map(Fd::adopt)
    }

    /// Like [`Fd::adopt`], for a descriptor that somebody else has sent.
    pub(crate) fn adopt_foreign(fd: RawFd) -> Fd {
        let mut owned = Fd::adopt(fd);
        owned.foreign = true;
        owned
    }

    /// It is known what it is: something that is closed at once.
    pub fn vouch(&mut self) {
        self.foreign = false;
    }

    /// It holds what somebody else has sent.
    pub(crate) fn suspect(&mut self) {
        self.foreign = true;
    }

    /// Takes over a descriptor and leaves it at its number; for a short use.
    pub fn keep(fd: RawFd) -> Fd {
        Fd { raw: fd, foreign: false }
    }

    /// Whether there was room out of the program's way.
    pub fn is_high(&self) -> bool {
        self.raw >= private_base()
    }

    /// The number, still owned by `self`.
    pub fn raw(&self) -> RawFd {
        self.raw
    }

    /// Gives the number up without closing it.
    pub fn into_raw(self) -> RawFd {
        let raw = self.raw;
        core::mem::forget(self);
        raw
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let disposer = DISPOSER.load(Ordering::Acquire);
        if self.foreign && disposer != 0 {
            // SAFETY: only `dispose_by` stores here, and only functions of this type.
            let disposer = unsafe { core::mem::transmute::<usize, Disposer>(disposer) };
            return disposer(Fd { raw: self.raw, foreign: false });
        }
        tell(self.raw, false);
        let _ = call::close(self.raw);
    }
}
