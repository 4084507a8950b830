//! Private descriptors: owned, close-on-exec, and out of the program's way.

use crate::call::{self, RawFd, Result};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The number from which private descriptors are taken. Programs expect the lowest free numbers
/// for themselves, some close everything above a small one, and a very high number would make
/// the kernel's descriptor table (copied at each fork) large.
static PRIVATE_BASE: AtomicI32 = AtomicI32::new(0);
/// Whether the base lies above the program's own limit.
static LIFTED: AtomicI32 = AtomicI32::new(0);
static OBSERVER: AtomicUsize = AtomicUsize::new(0);

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

/// Above this soft limit private descriptors go below it, not above.
const LIFT_MAX: u64 = 1 << 16;

fn private_base() -> RawFd {
    let base = PRIVATE_BASE.load(Ordering::Relaxed);
    if base != 0 {
        return base;
    }
    let (soft, hard) = call::descriptor_limits();
    let lift = soft <= LIFT_MAX && hard >= soft + 4096;
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
    let base = private_base();
    if LIFTED.load(Ordering::Relaxed) == 0 {
        return call::fcntl(fd, libc::F_DUPFD_CLOEXEC, base as usize).map(|n| n as RawFd);
    }
    call::with_descriptor_limit(base as u64 + 4096, || {
        call::fcntl(fd, libc::F_DUPFD_CLOEXEC, base as usize).map(|n| n as RawFd)
    })
}

/// An owned private descriptor; closed on drop.
#[derive(Debug)]
pub struct Fd(RawFd);

impl Fd {
    /// Takes over a descriptor that the caller owns, and moves it up and out of the way.
    pub fn adopt(fd: RawFd) -> Fd {
        let owned = match duplicate_high(fd) {
            Ok(high) => {
                let _ = call::close(fd);
                Fd(high)
            }
            Err(_) => Fd(fd),
        };
        tell(owned.0, true);
        owned
    }

    /// Takes over a descriptor and leaves it at its number; for a short use.
    pub fn keep(fd: RawFd) -> Fd {
        Fd(fd)
    }

    /// Whether there was room out of the program's way.
    pub fn is_high(&self) -> bool {
        self.0 >= private_base()
    }

    /// The number, still owned by `self`.
    pub fn raw(&self) -> RawFd {
        self.0
    }

    /// Gives the number up without closing it.
    pub fn into_raw(self) -> RawFd {
        let raw = self.0;
        core::mem::forget(self);
        raw
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        tell(self.0, false);
        let _ = call::close(self.0);
    }
}
