//! Gives up the privileges that a NIC needs to start, before the NIC receives the first frame.

use crate::numbers::Reader;
use sovia_sys::{Errno, Result, call, credentials};

/// Capability that Linux before 5.19 requires to run the BPF program.
const CAP_BPF: u32 = 39;

/// Privileges that a NIC keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// None.
    None,
    /// `CAP_BPF`: this kernel requires it to read sequence numbers.
    Bpf,
    /// All of root's. The NIC serves root's programs, and the kernel lets no process trace one with more privileges.
    Root,
}

/// Gives up all privileges that are not needed to read sequence numbers, and every way to gain new ones.
///
/// # Errors
/// The kernel refuses a step.
pub(crate) fn give_up(reader: &Reader) -> Result<Left> {
    // No program that this process executes gets more privileges.
    credentials::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    if call::geteuid() == 0 {
        return Ok(Left::Root);
    }
    credentials::drop_bounding_set();
    credentials::keep_capabilities(&[CAP_BPF])?;
    credentials::use_capabilities(false)?;
    let left = match reader.check() {
        Ok(()) => {
            credentials::keep_capabilities(&[])?;
            Left::None
        }
        Err(Errno::EPERM) => {
            credentials::use_capabilities(true)?;
            reader.check()?;
            Left::Bpf
        }
        Err(error) => return Err(error),
    };
    // The kernel hides a process from other processes of its user after a change of its user or capabilities. But the
    // NIC and each of its programs must prove that they could trace each other.
    credentials::prctl(libc::PR_SET_DUMPABLE, 1)?;
    Ok(left)
}
