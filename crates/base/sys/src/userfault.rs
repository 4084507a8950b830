//! Events of memory that goes away: a userfaultfd that is used for its events only.
//!
//! Memory is watched in write-protect mode and never protected, so no page fault is ever delivered
//! and no thread waits for us at its own memory. What is delivered: that a part of it was unmapped
//! (also by a mapping over it, or by `brk`), that it was moved, that its pages are about to be
//! thrown away. The thread that does so waits in the kernel until the event has been *read*:
//! - an unmapping or a move is told after it has been done, and another mapping may have got the
//!   addresses by then;
//! - pages are thrown away after it has been told, when the waiting call goes on.
//!
//! So what was read is not the whole truth; [`Userfault::is_quiet`] says whether there is more. And
//! the thread that reads must never unmap anything, free memory included, or it waits for itself.

use crate::call::{self, Errno, Result, Sysno};
use crate::fd::Fd;
use core::ops::Range;

/// `UFFD_API`, and the features: events, and write protection of what is there.
const API: u64 = 0xaa;
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
const FEATURE_REMAP: u64 = 1 << 2;
const FEATURE_REMOVE: u64 = 1 << 3;
const FEATURE_UNMAP: u64 = 1 << 6;
/// Not used: a kernel that has it (Linux 5.18) counts the changes that are under way, which older
/// ones only noted, so that the end of one hid another.
const FEATURE_EXACT_ADDRESS: u64 = 1 << 11;
const FEATURES: u64 =
    FEATURE_WRITE_PROTECT | FEATURE_REMAP | FEATURE_REMOVE | FEATURE_UNMAP | FEATURE_EXACT_ADDRESS;
/// Page faults of the kernel's own accesses are none of ours; without the right to handle those,
/// any program may have a userfaultfd.
const USER_MODE_ONLY: i32 = 1;
const MODE_WRITE_PROTECT: u64 = 1 << 1;

/// `_IOWR(0xaa, number, size)`.
const fn request(number: u32, size: usize) -> u32 {
    3 << 30 | (size as u32) << 16 | 0xaa << 8 | number
}

const IOCTL_API: u32 = request(0x3f, 24);
const IOCTL_REGISTER: u32 = request(0x00, 32);
const IOCTL_COPY: u32 = request(0x03, 40);

const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

/// What has become of watched memory; in addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is nothing mapped any more, or something else.
    Unmapped(Range<usize>),
    /// It lies elsewhere now, where it is still watched. That nothing lies at its old place is told
    /// after that.
    Moved(Range<usize>),
    /// Its pages are thrown away next: it stays mapped, and reads as zero.
    Emptied(Range<usize>),
}

/// A userfaultfd.
#[derive(Debug)]
pub struct Userfault(Fd);

impl Userfault {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// `EPERM`, `ENOSYS` where the kernel or a filter forbids it; `EINVAL` where it is too old.
    pub fn new() -> Result<Userfault> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
        // SAFETY: takes a flag word only.
        let make = || unsafe { syscalls::syscall!(Sysno::userfaultfd, flags) };
        let fd = Fd::make(|| make().map(|fd| fd as call::RawFd))?;
        let userfault = Userfault(fd);
        userfault.ioctl(IOCTL_API, &mut [API, FEATURES, 0])?;
        Ok(userfault)
    }

    fn ioctl<const WORDS: usize>(&self, request: u32, words: &mut [u64; WORDS]) -> Result<()> {
        // SAFETY: the structure lives, and is as long as the request says. Requests made here
        // change no memory.
        unsafe { syscalls::syscall!(Sysno::ioctl, self.0.raw(), request, words.as_mut_ptr()) }
            .map(drop)
    }

    /// Watches whole pages, for as long as they are mapped; again if need be. Memory that forked
    /// children get from this process is not watched.
    ///
    /// # Errors
    /// `EINVAL` for memory of a file and the like, `EPERM` for memory that cannot be written,
    /// `EBUSY` for memory that the program watches itself.
    pub fn watch(&self, pages: &Range<usize>) -> Result<()> {
        let (start, len) = (pages.start as u64, pages.len() as u64);
        self.ioctl(IOCTL_REGISTER, &mut [start, len, MODE_WRITE_PROTECT, 0])
    }

    /// The next event, if there is one. The thread that waits for it to be read goes on from now on.
    ///
    /// # Errors
    /// `EAGAIN` where there is none.
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
            // From, to, length.
            EVENT_REMAP => Some(Event::Moved(word(8)..word(8).saturating_add(word(24)))),
            EVENT_REMOVE => Some(Event::Emptied(word(8)..word(16))),
            EVENT_UNMAP => Some(Event::Unmapped(word(8)..word(16))),
            _ => None,
        })
    }

    /// Whether all watched memory that has been unmapped, moved or emptied by calls that have
    /// returned, or whose addresses another mapping has got meanwhile, is known from events that have
    /// been read. One system call, which does nothing (0.1 to 0.5 µs).
    pub fn is_quiet(&self) -> bool {
        // Copying no bytes is refused, but before that, for another reason, while a change is under
        // way.
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
