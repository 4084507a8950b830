//! Events about memory that is unmapped, moved or emptied, from a userfaultfd that is used only for events.
//!
//! The memory is registered in write-protect mode but never protected. So the kernel delivers no page faults, and
//! no thread waits for a page fault at its own memory. The kernel reports three events: memory was unmapped (also
//! by a mapping over it, or by `brk`), memory was moved, or pages will be discarded. The thread that causes an
//! event waits in the kernel until this process has *read* the event:
//! - The kernel reports an unmapping or a move after the fact. By then another mapping may have got the
//!   addresses.
//! - The kernel reports the discarding of pages before it happens, when the waiting call continues.
//!
//! So the events read so far may be incomplete. [`Userfault::is_quiet`] tells whether more are under way. The
//! thread that reads events must never unmap anything, also by freeing memory: it would wait for itself.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use core::ops::Range;

/// `UFFD_API` and its features: events, and write protection of present pages.
const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
const FEATURE_REMAP: u64 = 1 << 2;
const FEATURE_REMOVE: u64 = 1 << 3;
const FEATURE_UNMAP: u64 = 1 << 6;
/// Requested only to require Linux 5.18. Since this version, the kernel counts the changes under way. Older
/// kernels only set a flag, so the end of one change hid another change.
const FEATURE_EXACT_ADDRESS: u64 = 1 << 11;
const FEATURES: u64 =
    FEATURE_WRITE_PROTECT | FEATURE_REMAP | FEATURE_REMOVE | FEATURE_UNMAP | FEATURE_EXACT_ADDRESS;
/// Excludes page faults of the kernel's own accesses, which this module does not need. With this flag, a program
/// needs no special right to make a userfaultfd.
const USER_MODE_ONLY: i32 = 1;
const MODE_WRITE_PROTECT: u64 = 1 << 1;

/// Number of an ioctl: `_IOWR(0xaa, number, size)`.
const fn request(number: u32, size: usize) -> u32 {
    3 << 30 | (size as u32) << 16 | 0xaa << 8 | number
}

const IOCTL_API: u32 = request(0x3f, 24);
const IOCTL_REGISTER: u32 = request(0x00, 32);
const IOCTL_COPY: u32 = request(0x03, 40);

const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

/// Change of watched memory, as address ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The range is unmapped, or another mapping has replaced it.
    Unmapped(Range<usize>),
    /// The memory now lies at another address, where it is still watched. An [`Event::Unmapped`] for the old
    /// range follows.
    Moved(Range<usize>),
    /// The kernel will discard the pages next. The range stays mapped and reads as zero.
    Emptied(Range<usize>),
}

/// A userfaultfd for events.
#[derive(Debug)]
pub struct Userfault(Fd);

impl Userfault {
    /// Makes a userfaultfd that watches nothing yet.
    ///
    /// # Errors
    /// `EPERM` or `ENOSYS` if the kernel or a filter forbids it; `EINVAL` if the kernel is too old.
    pub fn new() -> Result<Userfault> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: the call takes only a flag word.
        let make = || unsafe { syscalls::syscall!(Sysno::userfaultfd, flags) };
        let fd = Fd::make(|| make().map(|fd| fd as call::RawFd))?;
        let userfault = Userfault(fd);
        userfault.ioctl(IOCTL_API, &mut [API, FEATURES, 0])?;
        Ok(userfault)
    }

    fn ioctl<const WORDS: usize>(&self, request: u32, words: &mut [u64; WORDS]) -> Result<()> {
        // SAFETY: `words` outlives the call and has the length that the request states. The requests made here
        // change no other memory.
        unsafe { syscalls::syscall!(Sysno::ioctl, self.0.raw(), request, words.as_mut_ptr()) }
            .map(drop)
    }

    /// Watches whole pages for as long as they are mapped. Watching them again is harmless. Forked children's
    /// copies are not watched.
    ///
    /// # Errors
    /// `EINVAL` for memory that cannot be watched, such as a file's. `EPERM` for memory that this process must
    /// not write. `EBUSY` for memory that the program watches itself.
    pub fn watch(&self, pages: &Range<usize>) -> Result<()> {
        let (start, len) = (pages.start as u64, pages.len() as u64);
        self.ioctl(IOCTL_REGISTER, &mut [start, len, MODE_WRITE_PROTECT, 0])
    }

    /// Reads the next event; `None` for an event of another kind. The thread that waited for this read continues.
    ///
    /// # Errors
    /// `EAGAIN` if there is no event.
    pub fn read(&self) -> Result<Option<Event>> {
        let mut message = [0u8; 32];
        let got = call::read(self.0.raw(), &mut message)?;
        if got < message.len() {
            return Err(Errno::EIO);
        }
        let word = |at: usize| {
            let mut bytes = [0; size_of::<usize>()];
            bytes.copy_from_slice(&message[at..at + size_of::<usize>()]);
            usize::from_ne_bytes(bytes)
        };
        Ok(match message[0] {
            // The words are the old address, the new address and the length.
            EVENT_REMAP => Some(Event::Moved(word(8)..word(8).saturating_add(word(24)))),
            EVENT_REMOVE => Some(Event::Emptied(word(8)..word(16))),
            EVENT_UNMAP => Some(Event::Unmapped(word(8)..word(16))),
            _ => None,
        })
    }

    /// Returns true if all changes of watched memory by finished calls are known from events already read. This
    /// includes memory whose addresses another mapping has got meanwhile. Makes one system call, which changes
    /// nothing (0.1 to 0.5 µs).
    pub fn is_quiet(&self) -> bool {
        // The kernel refuses to copy no bytes (`EINVAL`). While a change is under way, the kernel refuses earlier
        // and with another error.
        self.ioctl(IOCTL_COPY, &mut [0; 5]) == Err(Errno::EINVAL)
    }

    /// Sleeps until there may be an event.
    pub fn wait(&self) {
        let mut fds = [crate::poll::PollFd { fd: self.0.raw(), events: libc::POLLIN, revents: 0 }];
        let _ = crate::poll::ppoll(&mut fds, None, None);
    }
}

#[cfg(test)]
#[path = "userfault_tests.rs"]
mod tests;
