//! The way into a peer's memory, where the system allows it.
//!
//! `/proc/PID/mem`, opened once, stays the memory of that very process image: it leads nowhere
//! when the process ends or executes another program, also if its number is given to another
//! process. That it is the right one from the beginning is seen by the token that the peer has sent
//! us and that lies in its memory; and that it is not a forked relative of the right one, which has
//! the same token, by the right one's being alive after that. (`process_vm_writev` names its target
//! by number at each call, which is not enough; for what is copied by this way, a few pages, it is
//! no faster.)
//!
//! `SOVIA_DIRECT=off` forbids it, as do a tracing restriction of the system, another PID
//! namespace or a missing /proc. Then the peer's engine copies.

use crate::link::Token;
use sovia_sys::poll::probe;
use sovia_sys::{Errno, Fd, call};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// Bytes at the end of an RDMA write that are stored last.
pub(crate) const LAST: usize = 8;

/// The peer's memory.
#[derive(Debug)]
pub(crate) struct Reach {
    pid: i32,
    /// Readable once the process has ended.
    process: Option<Arc<Fd>>,
    token: Token,
    token_at: u64,
    memory: OnceLock<Option<Fd>>,
}

/// Why bytes are not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The process is no more.
    Gone,
    /// The memory there is none, or not for this.
    Fault,
}

/// Whether it is allowed at all.
fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| std::env::var_os("SOVIA_DIRECT").is_none_or(|value| value != "off"))
}

impl Reach {
    /// The memory of process `pid`, in which `token` lies at `token_at`.
    pub(crate) fn new(pid: i32, process: Option<Arc<Fd>>, token: Token, token_at: u64) -> Reach {
        Reach { pid, process, token, token_at, memory: OnceLock::new() }
    }

    fn memory(&self) -> Option<&Fd> {
        self.memory.get_or_init(|| if allowed() { self.open() } else { None }).as_ref()
    }

    fn open(&self) -> Option<Fd> {
        if self.pid <= 0 {
            return None;
        }
        let path = CString::new(format!("/proc/{}/mem", self.pid)).ok()?;
        let fd = Fd::adopt(call::open(&path, libc::O_RDWR | libc::O_CLOEXEC, 0).ok()?);
        let mut token = Token::default();
        let read = call::pread(fd.raw(), &mut token, i64::try_from(self.token_at).ok()?);
        let right = read == Ok(token.len()) && token == self.token;
        // If it lives now, its number was its own when the memory was opened.
        let lives = self.process.as_ref().is_none_or(|p| probe(p.raw(), libc::POLLIN) == 0);
        (right && lives).then_some(fd)
    }

    /// Whether there is a way.
    pub(crate) fn is_open(&self) -> bool {
        self.memory().is_some()
    }

    /// Writes bytes to an address of the peer's. The last ones, up to [`LAST`], are stored when all
    /// others are: a program may look at them to see whether it has the others.
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), Missed> {
        let last = bytes.len().saturating_sub(LAST);
        self.all(bytes.len(), to, |fd, done, at| {
            let middle = last.max(done);
            call::pwrite_both(fd, &bytes[done..middle], &bytes[middle..], at)
        })
    }

    /// Reads bytes from an address of the peer's.
    pub(crate) fn read(&self, from: u64, out: &mut [u8]) -> Result<(), Missed> {
        self.all(out.len(), from, |fd, done, at| call::pread(fd, &mut out[done..], at))
    }

    fn all(
        &self,
        len: usize,
        address: u64,
        mut step: impl FnMut(i32, usize, i64) -> Result<usize, Errno>,
    ) -> Result<(), Missed> {
        let fd = self.memory().ok_or(Missed::Fault)?.raw();
        let mut done = 0;
        while done < len {
            let at = i64::try_from(address.wrapping_add(done as u64)).map_err(|_| Missed::Fault)?;
            match step(fd, done, at) {
                Ok(0) => return Err(Missed::Gone),
                Ok(n) => done += n,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(Missed::Fault),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_memory_is_opened() {
        let token: Box<Token> = Box::new([7; 16]);
        let at = token.as_ptr() as u64;
        let me = call::getpid();
        let reach = Reach::new(me, None, *token, at);
        let mut word = Box::new(1u64);
        let address = core::ptr::from_mut(&mut *word) as u64;
        assert_eq!(reach.write(address, &5u64.to_ne_bytes()), Ok(()));
        let mut out = [0; 8];
        assert_eq!(reach.read(address, &mut out), Ok(()));
        assert_eq!(u64::from_ne_bytes(out), 5);
        assert_eq!(reach.read(64, &mut out), Err(Missed::Fault));
        assert!(!Reach::new(me, None, [8; 16], at).is_open(), "another token");
        assert!(!Reach::new(0, None, *token, at).is_open(), "a process that cannot be seen");
    }

    /// As a relative of the right one that got its number has the token.
    #[test]
    fn nothing_is_opened_after_the_end() {
        let token: Box<Token> = Box::new([7; 16]);
        let at = token.as_ptr() as u64;
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = sovia_sys::process::open(child.id() as i32).ok().map(Arc::new);
        child.wait().unwrap();
        assert!(process.is_some());
        assert!(!Reach::new(call::getpid(), process, *token, at).is_open());
    }
}
