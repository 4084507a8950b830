//! Private descriptors: owned, close-on-exec, and out of the program's way.

use crate::call::{self, RawFd, Result};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The number from which private descriptors are taken. Programs expect the lowest free numbers
/// for themselves, some close everything above a small one, and a very high number would make
/// the kernel's descriptor table (copied at each fork) large.
static PRIVATE_BASE: AtomicI32 = AtomicI32::new(0);
static OBSERVER: AtomicUsize = AtomicUsize::new(0);
static DISPOSER: AtomicUsize = AtomicUsize::new(0);

/// A function called for each private descriptor, so that the program's own calls leave it alone: with
/// `true` when it has been made, with `false` before it is closed.
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

/// A function that closes descriptors which other processes have sent. That may take as long as the sender
/// likes (a socket that lingers, a file of a slow file system), so the caller does not do it itself.
pub type Disposer = fn(Fd);

/// Sets the disposer; without one, the thread that drops such a descriptor closes it.
pub fn dispose_by(disposer: Disposer) {
    DISPOSER.store(disposer as usize, Ordering::Release);
}

/// A program that can have fewer numbers than this has counted those that it needs.
const COUNTED: u64 = 1024;
/// The numbers below which private descriptors begin, whatever the limit is.
const BASE_MAX: u64 = 4096;

/// Whether there can be private descriptors without taking numbers that the program needs. They are
/// taken from the last quarter of the numbers that the program's limit allows it; the limit itself
/// is the program's, and never changed.
pub fn can_be_spared() -> bool {
    private_numbers() != 0
}

/// How many numbers there are for private descriptors.
pub fn private_numbers() -> usize {
    let (soft, _) = call::descriptor_limits();
    if soft < COUNTED { 0 } else { soft.saturating_sub(private_base() as u64) as usize }
}

/// The first of the numbers for private descriptors, given the program's limit.
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

/// A duplicate at or above the private base.
fn duplicate_high(fd: RawFd) -> Result<RawFd> {
    call::fcntl(fd, libc::F_DUPFD_CLOEXEC, private_base() as usize).map(|n| n as RawFd)
}

/// Has the kernel make room for private descriptors. In a process of several threads it takes more than ten
/// milliseconds to enlarge the table of descriptors, so this is for a process of one. (A forked child begins with a
/// table that holds what is open.)
pub fn make_room() {
    let (soft, _) = call::descriptor_limits();
    if soft < COUNTED {
        return;
    }
    if let Ok(event) = call::eventfd(libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
        // The program may raise its limit yet: the private base is not decided here.
        let base = base_for(soft) as usize;
        if let Ok(high) = call::fcntl(event, libc::F_DUPFD_CLOEXEC, base) {
            let _ = call::close(high as RawFd);
        }
        let _ = call::close(event);
    }
}

/// Puts a new event counter, which no other process has, in the place of a private descriptor: its
/// owner keeps the number, and has nothing by it any more. False if none can be had; then the
/// descriptor is closed.
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
        make().map(Fd::adopt)
    }

    /// One more number for what `fd` is, which stays: the first free one from `first` on.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn duplicate(fd: RawFd, first: RawFd) -> Result<Fd> {
        let raw = call::fcntl(fd, libc::F_DUPFD_CLOEXEC, first as usize)? as RawFd;
        let owned = Fd { raw, foreign: false };
        tell(owned.raw, true);
        Ok(owned)
    }

    /// Takes over a descriptor that this process has had since it became another program, and leaves it at its number.
    pub fn inherit(fd: RawFd) -> Fd {
        let owned = Fd { raw: fd, foreign: false };
        owned.outlasts_exec(false);
        tell(fd, true);
        owned
    }

    /// Whether a program that this process becomes is to have it.
    pub fn outlasts_exec(&self, outlasts: bool) {
        let flags = if outlasts { 0 } else { libc::FD_CLOEXEC };
        let _ = call::fcntl(self.raw, libc::F_SETFD, flags as usize);
    }

    /// Two connected sockets, which stay at their numbers.
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

    /// It is known what it is: something that is closed at once.
    pub fn vouch(&mut self) {
        self.foreign = false;
    }

    /// One whose closing may take long.
    #[must_use]
    pub fn suspected(mut self) -> Fd {
        self.foreign = true;
        self
    }

    /// Marks a descriptor that holds what another process has sent.
    pub(crate) fn suspect(&mut self) {
        self.foreign = true;
    }

    /// Takes over a descriptor and leaves it at its number; for a short use.
    pub fn keep(fd: RawFd) -> Fd {
        Fd { raw: fd, foreign: false }
    }

    /// Takes over a private descriptor that [`Fd::into_raw`] gave up.
    pub fn own(fd: RawFd) -> Fd {
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

impl From<Fd> for std::os::fd::OwnedFd {
    fn from(fd: Fd) -> Self {
        tell(fd.raw, false);
        let raw = fd.into_raw();
        // SAFETY: the number was owned, and is given up.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(raw) }
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
    fn a_private_descriptor_leaves_the_limit_as_it_is() {
        let before = call::descriptor_limits();
        let fd = Fd::make(|| call::eventfd(libc::EFD_CLOEXEC)).unwrap();
        assert_eq!(fd.is_high(), before.0 > private_base() as u64);
        assert_eq!(call::descriptor_limits(), before);
    }
}
