//! Private descriptors: owned, close-on-exec, and out of the program's way.

use crate::call::{self, RawFd, Result};
use core::sync::atomic::{AtomicI32, Ordering};

/// The number from which private descriptors are taken. Programs expect the lowest free numbers
/// for themselves, some close everything above a small one, and a very high number would make
/// the kernel's descriptor table (copied at each fork) large.
static PRIVATE_BASE: AtomicI32 = AtomicI32::new(0);

fn private_base() -> RawFd {
    let base = PRIVATE_BASE.load(Ordering::Relaxed);
    if base != 0 {
        return base;
    }
    let limit = call::soft_limit(libc::RLIMIT_NOFILE).unwrap_or(1 << 20).min(1024) as RawFd;
    let base = (limit - 128).max(limit / 2).max(3);
    PRIVATE_BASE.store(base, Ordering::Relaxed);
    base
}

/// An owned private descriptor; closed on drop.
#[derive(Debug)]
pub struct Fd(RawFd);

impl Fd {
    /// Takes over a descriptor that the caller owns, and moves it up and out of the way.
    pub fn adopt(fd: RawFd) -> Fd {
        match call::fcntl(fd, libc::F_DUPFD_CLOEXEC, private_base() as usize) {
            Ok(high) => {
                let _ = call::close(fd);
                Fd(high as RawFd)
            }
            Err(_) => Fd(fd),
        }
    }

    /// Takes over a descriptor and leaves it at its number.
    pub fn keep(fd: RawFd) -> Fd {
        Fd(fd)
    }

    /// A second descriptor of the same open file.
    pub fn duplicate(fd: RawFd) -> Result<Fd> {
        call::fcntl(fd, libc::F_DUPFD_CLOEXEC, private_base() as usize).map(|n| Fd(n as RawFd))
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
        let _ = call::close(self.0);
    }
}
