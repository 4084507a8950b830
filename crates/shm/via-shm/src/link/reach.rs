//! Direct access to a peer's memory, if the system allows it.
//!
//! An open file descriptor of `/proc/PID/mem` always refers to the same process image. Access fails once the
//! process has ended or executed another program, even if another process has got the same process id. Two checks
//! after the open ensure that the memory belongs to the peer. First, the peer's token must be at the address that
//! the peer has sent. A forked relative of the peer has the same token. So, second, the peer's pidfd must show that
//! the peer is still alive. (`process_vm_writev` takes a process id at each call. Another process may have got this
//! process id meanwhile. For a few pages `process_vm_writev` is no faster, either.)
//!
//! Direct access is impossible if `SOVIA_DIRECT=off` is set, if tracing is restricted, between processes of
//! different PID namespaces, and without /proc. RDMAs are then staged, and the peer's engine copies.

use crate::link::Token;
use sovia_sys::poll::probe;
use sovia_sys::{Errno, Fd, call};
use std::ffi::CString;
use std::sync::{Arc, OnceLock};

/// Number of bytes at the end of an RDMA write that are stored last.
pub(crate) const LAST: usize = 8;

/// Direct access to a peer's memory.
#[derive(Debug)]
pub(crate) struct Reach {
    pid: i32,
    /// Pidfd of the peer's process, readable once the process has ended.
    process: Option<Arc<Fd>>,
    token: Token,
    token_at: u64,
    memory: OnceLock<Option<Fd>>,
}

/// Reason why a direct access has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The process has ended.
    Gone,
    /// There is no memory at the address, or the access is not allowed.
    Fault,
}

/// Returns true unless `SOVIA_DIRECT=off` forbids direct access.
fn allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| std::env::var_os("SOVIA_DIRECT").is_none_or(|value| value != "off"))
}

impl Reach {
    /// Creates access to the memory of process `pid`, which has `token` at address `token_at`. Opens the memory at the
    /// first use.
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
        // If the peer is alive now, `pid` was its process id when the memory was opened.
        let lives = self.process.as_ref().is_none_or(|p| probe(p.raw(), libc::POLLIN) == 0);
        (right && lives).then_some(fd)
    }

    /// Returns true if the peer's memory can be accessed.
    pub(crate) fn is_open(&self) -> bool {
        self.memory().is_some()
    }

    /// Writes bytes to an address in the peer's memory. Stores the last bytes, up to [`LAST`], after all others. A
    /// program may poll the last bytes to see if all bytes have arrived.
    pub(crate) fn write(&self, to: u64, bytes: &[u8]) -> Result<(), Missed> {
        let last = bytes.len().saturating_sub(LAST);
        self.all(bytes.len(), to, |fd, done, at| {
            let middle = last.max(done);
            call::pwrite_both(fd, &bytes[done..middle], &bytes[middle..], at)
        })
    }

    /// Reads bytes from an address in the peer's memory.
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

    /// After the peer's end, a forked relative with the same token could have got the peer's process id.
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
