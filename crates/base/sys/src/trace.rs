//! Proves that one process could trace another, by the kernel's own rule (`PTRACE_MODE_READ`).
//!
//! The rule compares user and group ids, capabilities, user namespaces and the dumpable flag. The rule also asks
//! the security modules (Landlock, SELinux, AppArmor). This module does not copy the rule but asks the kernel.
//! `readlink` of `/proc/PID/fd/N` succeeds only for a process that passes the rule for `PID`. So a [`Challenge`]
//! is a memory file with a random name:
//!
//! - A process that knows the name could trace the file's owner.
//! - A process that reads the name learns that it could trace the owner. The name also shows that the number
//!   `PID` then belonged to the owner, because no other process has a file with this name.
//!
//! If /proc is missing, hidden or of another PID namespace, no process can read the name, and nothing is proven.

use crate::call::{self, RawFd, Result, put, put_number};
use crate::fd::Fd;
use core::sync::atomic::{AtomicU32, Ordering};

/// The random part of a challenge's name.
pub type Secret = [u8; 16];

const PREFIX: &[u8] = b"/memfd:sovia-proof-";
const DIGITS: usize = 2 * size_of::<Secret>();

/// A file of this process. Only processes that could trace this process can read the file's name.
#[derive(Debug)]
pub struct Challenge {
    file: Fd,
    secret: Secret,
}

impl Challenge {
    /// Makes a file with a new random name.
    ///
    /// # Errors
    /// Those of `getrandom` and `memfd_create`.
    pub fn new() -> Result<Challenge> {
        let mut secret = Secret::default();
        if call::getrandom(&mut secret)? != secret.len() {
            return Err(call::Errno::EAGAIN);
        }
        let mut name = [0u8; PREFIX.len() + DIGITS];
        let mut at = 0;
        // The kernel puts "/memfd:" before the name.
        put(&mut name, &mut at, &PREFIX[b"/memfd:".len()..]);
        for byte in secret {
            put(&mut name, &mut at, &[digit(byte >> 4), digit(byte & 15)]);
        }
        let name = core::ffi::CStr::from_bytes_until_nul(&name).map_err(|_| call::Errno::EINVAL)?;
        let file = Fd::make(|| call::memfd_create(name, libc::MFD_CLOEXEC))?;
        Ok(Challenge { file, secret })
    }

    /// Returns the descriptor's number, under which other processes look for the name.
    pub fn place(&self) -> RawFd {
        self.file.raw()
    }

    /// Returns true if the descriptor has a private number, which the program does not need.
    pub fn is_high(&self) -> bool {
        self.file.is_high()
    }

    /// Returns true if `shown` is the random part of the name. Then the process that sent `shown` could trace
    /// this process.
    pub fn is_met_by(&self, shown: &Secret) -> bool {
        // The loop has no branch for each byte, so its duration does not reveal the position of a difference.
        self.secret.iter().zip(shown).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
    }
}

/// Reads the random part of the challenge's name from another process. Returns `None` if the caller must not
/// trace that process, cannot ask, or finds no challenge at that number.
pub fn read_challenge(pid: i32, place: RawFd) -> Option<Secret> {
    if pid <= 0 || place < 0 {
        return None;
    }
    if !call::is_without_first_thread(pid) {
        return shown_to(pid, None, place);
    }
    let mut found = None;
    call::each_thread_of(pid, |thread| {
        if found.is_none() && thread != pid {
            found = shown_to(pid, Some(thread), place);
        }
    });
    found
}

/// Reads the name through `/proc/PID`, or through one thread of that process.
fn shown_to(pid: i32, thread: Option<i32>, place: RawFd) -> Option<Secret> {
    let mut path = [0u8; 64];
    let mut at = 0;
    put(&mut path, &mut at, b"/proc/");
    put_number(&mut path, &mut at, pid.unsigned_abs());
    if let Some(thread) = thread {
        put(&mut path, &mut at, b"/task/");
        put_number(&mut path, &mut at, thread.unsigned_abs());
    }
    put(&mut path, &mut at, b"/fd/");
    put_number(&mut path, &mut at, place.unsigned_abs());
    let path = core::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let mut target = [0u8; 128];
    let n = call::read_link_at(path, &mut target).ok()?;
    let digits = target.get(..n)?.strip_prefix(PREFIX)?.get(..DIGITS)?;
    let mut secret = Secret::default();
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(secret)
}

fn digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble & 15)]
}

fn value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Returns true if a user id that the kernel reports to this process may stand for several users.
///
/// The kernel reports the overflow id for every user without an id in the caller's user namespace. If there are
/// such users, this id does not distinguish them. If every user has an id, the overflow id names one user.
pub fn is_ambiguous(uid: u32) -> bool {
    uid == overflow_uid() && !all_users_have_numbers()
}

/// Returns the overflow id, which is read once: an administrator sets it at boot, if ever.
fn overflow_uid() -> u32 {
    const DEFAULT: u32 = 65534;
    static READ: AtomicU32 = AtomicU32::new(u32::MAX);
    let read = READ.load(Ordering::Relaxed);
    if read != u32::MAX {
        return read;
    }
    let mut text = [0u8; 16];
    let uid = read_file(c"/proc/sys/kernel/overflowuid", &mut text)
        .and_then(|text| core::str::from_utf8(text).ok()?.trim().parse().ok())
        .unwrap_or(DEFAULT);
    READ.store(uid, Ordering::Relaxed);
    uid
}

/// Returns true if this user namespace maps every user id, as the initial namespace does.
fn all_users_have_numbers() -> bool {
    let mut text = [0u8; 256];
    let Some(text) = read_file(c"/proc/self/uid_map", &mut text) else { return false };
    let Ok(text) = core::str::from_utf8(text) else { return false };
    let mut words = text.split_ascii_whitespace();
    let (Some(_), Some(_), Some(count), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    count.parse() == Ok(u32::MAX)
}

fn read_file<'a>(path: &core::ffi::CStr, out: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = Fd::make(|| call::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)).ok()?;
    let n = call::read(file.raw(), out).ok()?;
    out.get(..n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read_by_a_process_that_may() {
        let challenge = Challenge::new().unwrap();
        let other = Challenge::new().unwrap();
        let shown = read_challenge(call::getpid(), challenge.place()).unwrap();
        assert!(challenge.is_met_by(&shown));
        assert!(!other.is_met_by(&shown));
        assert!(!challenge.is_met_by(&Secret::default()));
    }

    #[test]
    fn what_is_no_challenge_is_not_read() {
        let file = Fd::make(|| call::memfd_create(c"another", 0)).unwrap();
        let (pid, challenge) = (call::getpid(), Challenge::new().unwrap());
        assert_eq!(read_challenge(pid, file.raw()), None);
        assert_eq!(read_challenge(pid, -1), None);
        assert_eq!(read_challenge(pid, i32::MAX), None);
        for no_process in [0, -1, i32::MAX] {
            assert_eq!(read_challenge(no_process, challenge.place()), None);
        }
    }

    /// Only root can trace a process that is not dumpable.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test is no part of the engine")]
    fn a_process_that_may_not_be_traced_is_not_read() {
        // SAFETY: `geteuid` only returns a number.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIPPED: only root can become another user");
            return;
        }
        let challenge = Challenge::new().unwrap();
        let (pid, place) = (call::getpid(), challenge.place());
        // The user changes in a child, which may only make system calls.
        // SAFETY: the calls take only numbers and a live local, and the child exits without returning.
        unsafe {
            match libc::fork() {
                0 => {
                    let changed = libc::syscall(libc::SYS_setresuid, 4242, 4242, 4242) == 0;
                    let read = read_challenge(pid, place).is_some();
                    libc::_exit(if changed { i32::from(read) } else { 2 });
                }
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    assert_eq!(libc::WEXITSTATUS(status), 0, "another user has read it");
                }
            }
        }
    }

    #[test]
    fn the_overflow_id_is_a_user_where_every_user_has_a_number() {
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
        let all = map.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
        assert_eq!(is_ambiguous(65534), !all);
        assert!(!is_ambiguous(0));
    }
}
