//! Sleeps on several words at once (`futex_waitv`, Linux 5.16).

use crate::call::{Errno, Result, Sysno};
use crate::clock;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;

/// Largest number of words that the kernel accepts.
pub const WORDS_MAX: usize = 128;

/// The kernel's `struct futex_waitv`.
#[derive(Debug)]
#[repr(C)]
struct Word {
    expected: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Words to sleep on, each with its expected value.
#[derive(Debug, Default)]
pub struct AnyOf<'a> {
    words: Vec<Word>,
    borrowed: PhantomData<&'a AtomicU32>,
}

impl<'a> AnyOf<'a> {
    /// Adds a word.
    pub fn push(&mut self, word: &'a AtomicU32, expected: u32) {
        /// `FUTEX2_SIZE_U32` without the flag for private words, because other processes wake this process
        /// through shared pages.
        const SHARED_32: u32 = 2;
        let address = word.as_ptr() as u64;
        self.words.push(Word { expected: expected.into(), address, flags: SHARED_32, reserved: 0 });
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Sleeps while every word holds its expected value, until a thread wakes one of them or `timeout_ns` have
    /// passed.
    ///
    /// # Errors
    /// `EAGAIN` if a word had already changed, `ETIMEDOUT`, or `EINTR` for a signal. `EINVAL` if there are no
    /// words or more than [`WORDS_MAX`]. `ENOSYS` if the kernel lacks the call, or the error of a seccomp filter
    /// that does not know it.
    pub fn wait(&self, timeout_ns: u64) -> Result<()> {
        let until = clock::now_ns().saturating_add(timeout_ns);
        let until = libc::timespec {
            tv_sec: (until / 1_000_000_000) as libc::time_t,
            tv_nsec: (until % 1_000_000_000) as _,
        };
        let (words, count) = (self.words.as_ptr(), self.words.len());
        let (until, clock) = (core::ptr::from_ref(&until), libc::CLOCK_MONOTONIC);
        // SAFETY: the kernel reads `count` entries and the timespec, which outlive the call. The kernel also
        // reads the words, which stay borrowed while `self` exists.
        match unsafe { syscalls::syscall!(Sysno::futex_waitv, words, count, 0, until, clock) } {
            Ok(_) => Ok(()),
            Err(errno) => Err(Errno::new(errno.into_raw())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_change_of_any_word_ends_the_sleep() {
        let words = [const { AtomicU32::new(7) }; 3];
        let mut any = AnyOf::default();
        words.iter().for_each(|word| any.push(word, 7));
        match any.wait(1_000_000) {
            // The kernel is too old, or a seccomp filter does not know the call.
            Err(Errno::ENOSYS | Errno::EPERM) => return,
            result => assert_eq!(result, Err(Errno::ETIMEDOUT)),
        }
        std::thread::scope(|s| {
            s.spawn(|| {
                words[2].store(8, Ordering::SeqCst);
                futex::wake(&words[2], 1);
            });
            while words[2].load(Ordering::SeqCst) == 7 {
                let _ = any.wait(60_000_000_000);
            }
        });
        assert_eq!(any.wait(60_000_000_000), Err(Errno::EAGAIN));
        assert_eq!(AnyOf::default().wait(1), Err(Errno::EINVAL));
    }
}
