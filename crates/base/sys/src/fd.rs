//! Private descriptors, which are owned, close-on-exec, and outside the numbers that the program uses.

use crate::call::{self, RawFd, Result};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The lowest number for private descriptors; 0 before the first use. Programs expect the lowest free numbers for
/// themselves, and some close everything above a small number. A very high number would make the kernel's
/// descriptor table large, and each fork copies this table.
static PRIVATE_BASE: AtomicI32 = AtomicI32::new(0);
static OBSERVER: AtomicUsize = AtomicUsize::new(0);
static DISPOSER: AtomicUsize = AtomicUsize::new(0);

/// Function that is called for each private descriptor, so that the program's own calls leave it alone. The
/// argument is `true` after the descriptor was made, and `false` before it is closed.
pub type Observer = fn(RawFd, bool);

/// Sets the observer. Called once, before the first private descriptor is made.
pub fn observe(observer: Observer) {
    OBSERVER.store(observer as usize, Ordering::Release);
}

fn tell(fd: RawFd, made: bool) {
    let observer = OBSERVER.load(Ordering::Acquire);
    if observer != 0 {
        // SAFETY: only `observe` stores here, and it stores only values of type `Observer`.
        let observer = unsafe { core::mem::transmute::<usize, Observer>(observer) };
        observer(fd, made);
    }
}

/// Function that closes descriptors from other processes. The sender can make the close take long, by a lingering
/// socket or a file of a slow file system. So the thread that drops such a descriptor does not close it.
pub type Disposer = fn(Fd);

/// Sets the disposer. Without a disposer, the thread that drops such a descriptor closes it.
pub fn dispose_by(disposer: Disposer) {
    DISPOSER.store(disposer as usize, Ordering::Release);
}

/// Smallest limit of descriptors with which Sovia takes private numbers. A program with a lower limit has
/// probably counted the numbers that it needs.
const COUNTED: u64 = 1024;
/// Limit of the number at which private descriptors begin.
const BASE_MAX: u64 = 4096;

/// Returns true if private descriptors take no numbers that the program needs. Private descriptors use the last
/// quarter of the numbers below the program's limit. Sovia never changes this limit.
pub fn can_be_spared() -> bool {
    private_numbers() != 0
}

/// Returns how many numbers are available for private descriptors.
pub fn private_numbers() -> usize {
    let (soft, _) = call::descriptor_limits();
    if soft < COUNTED { 0 } else { soft.saturating_sub(private_base() as u64) as usize }
}

/// Returns the first number for private descriptors if the program's soft limit is `soft`.
fn base_for(soft: u64) -> RawFd {
    let numbers = soft.min(BASE_MAX);
    (numbers - numbers / 4).max(3) as RawFd
}

fn private_base() -> RawFd {
    let base = PRIVATE_BASE.load(Ordering::Relaxed);
    if base != 0 {
        return base;
    }
    let base = base_for(call::descriptor_limits().0);
    PRIVATE_BASE.store(base, Ordering::Relaxed);
    base
}

/// Duplicates `fd` to a number at or above the private base.
fn duplicate_high(fd: RawFd) -> Result<RawFd> {
    call::fcntl(fd, libc::F_DUPFD_CLOEXEC, private_base() as usize).map(|n| n as RawFd)
}

/// Makes the kernel enlarge the descriptor table for private descriptors. Call this while the process has one
/// thread: with several threads the kernel needs more than ten milliseconds. A forked child begins with a table
/// that is large enough for all open descriptors.
pub fn make_room() {
    let (soft, _) = call::descriptor_limits();
    if soft < COUNTED {
        return;
    }
    if let Ok(event) = call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
        // The program may still raise its limit, so this does not set the private base.
        let base = base_for(soft) as usize;
        if let Ok(high) = call::fcntl(event, libc::F_DUPFD_CLOEXEC, base) {
            let _ = call::close(high as RawFd);
        }
        let _ = call::close(event);
    }
}

/// Replaces a private descriptor by a new eventfd that no other process has. The owner keeps the number, but can
/// no longer reach the old object. Returns false if no eventfd can be made. Then the descriptor is closed.
pub fn sever(fd: RawFd) -> bool {
    let severed = call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK).and_then(|event| {
        let result = call::dup_cloexec_onto(event, fd);
        let _ = call::close(event);
        result
    });
    if severed.is_err() {
        let _ = call::close(fd);
    }
    severed.is_ok()
}

/// An owned private descriptor, closed when dropped.
#[derive(Debug)]
pub struct Fd {
    raw: RawFd,
    /// Set if closing the descriptor may take long.
    foreign: bool,
}

impl Fd {
    /// Takes over a descriptor that the caller owns, and moves it to a private number if one is free.
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

    /// Calls `make` and moves the new descriptor to a private number.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn make(make: impl FnOnce() -> Result<RawFd>) -> Result<Fd> {
        make().map(Fd::adopt)
    }

    /// Duplicates `fd` to the first free number at or above `first`. `fd` stays open.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn duplicate(fd: RawFd, first: RawFd) -> Result<Fd> {
        let raw = call::fcntl(fd, libc::F_DUPFD_CLOEXEC, first as usize)? as RawFd;
        let owned = Fd { raw, foreign: false };
        tell(owned.raw, true);
        Ok(owned)
    }

    /// Takes over a descriptor that this process has kept across an exec. Leaves the descriptor at its number. The caller
    /// makes the next exec close it ([`call::close_on_exec`]).
    pub fn inherit(fd: RawFd) -> Fd {
        tell(fd, true);
        Fd { raw: fd, foreign: false }
    }

    /// Makes two connected sockets, which stay at their numbers.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn pair(domain: i32, kind: i32) -> Result<(Fd, Fd)> {
        call::socketpair(domain, kind).map(|[one, other]| (Fd::keep(one), Fd::keep(other)))
    }

    /// Like [`Fd::adopt`], for a descriptor that another process has sent.
    pub(crate) fn adopt_foreign(fd: RawFd) -> Fd {
        let mut owned = Fd::adopt(fd);
        owned.foreign = true;
        owned
    }

    /// Marks a descriptor from another process as safe to close at once, after the caller has checked its kind.
    pub fn vouch(&mut self) {
        self.foreign = false;
    }

    /// Marks a descriptor whose closing may take long.
    #[must_use]
    pub fn suspected(mut self) -> Fd {
        self.foreign = true;
        self
    }

    /// Marks a descriptor, such as a socket, that holds descriptors from other processes.
    pub(crate) fn suspect(&mut self) {
        self.foreign = true;
    }

    /// Takes over a descriptor and leaves it at its number, for a short use.
    pub fn keep(fd: RawFd) -> Fd {
        Fd { raw: fd, foreign: false }
    }

    /// Takes over a private descriptor from [`Fd::into_raw`].
    pub fn own(fd: RawFd) -> Fd {
        Fd { raw: fd, foreign: false }
    }

    /// Returns true if the descriptor has a private number.
    pub fn is_high(&self) -> bool {
        self.raw >= private_base()
    }

    /// Returns the number, which `self` still owns.
    pub fn raw(&self) -> RawFd {
        self.raw
    }

    /// Gives up the descriptor without closing it, and returns its number.
    pub fn into_raw(self) -> RawFd {
        let raw = self.raw;
        core::mem::forget(self);
        raw
    }
}

impl From<Fd> for std::os::fd::OwnedFd {
    fn from(fd: Fd) -> Self {
        tell(fd.raw, false);
        let raw = fd.into_raw();
        // SAFETY: `fd` owned the number, and `into_raw` has given up this ownership.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(raw) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let disposer = DISPOSER.load(Ordering::Acquire);
        if self.foreign && disposer != 0 {
            // SAFETY: only `dispose_by` stores here, and it stores only values of type `Disposer`.
            let disposer = unsafe { core::mem::transmute::<usize, Disposer>(disposer) };
            return disposer(Fd { raw: self.raw, foreign: false });
        }
        tell(self.raw, false);
        let _ = call::close(self.raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_limit_stay_the_programs() {
        assert_eq!(base_for(1024), 768);
        assert_eq!(base_for(4096), 3072);
        assert_eq!(base_for(1 << 20), 3072);
        assert_eq!(base_for(2), 3);
    }

    #[test]
    fn private_descriptor_leaves_the_limit_unchanged() {
        let before = call::descriptor_limits();
        let fd = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC)).unwrap();
        assert_eq!(fd.is_high(), before.0 > private_base() as u64);
        assert_eq!(call::descriptor_limits(), before);
    }
}
