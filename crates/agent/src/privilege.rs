//! What a NIC gives up before it hears a frame: it needs privileges to open what it needs, and none to serve.

use crate::numbers::Reader;
use sovia_sys::{Errno, Result, call, credentials};

/// What the kernel asks of a process that runs such a program, before Linux 5.19.
const CAP_BPF: u32 = 39;

/// What is left of a NIC's privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// None.
    None,
    /// `CAP_BPF`: this kernel does not let it read sequence numbers without.
    Bpf,
    /// All that root has: its programs are root's, and the kernel lets no process trace one that has more privileges than itself.
    Root,
}

/// Gives up all privileges with which sequence numbers can be read still, and every way to get some.
///
/// # Errors
/// What the kernel says.
pub(crate) fn give_up(reader: &Reader) -> Result<Left> {
    // No program that it could become has more than itself.
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
    // One whose user or capabilities have changed when it began is hidden from other processes of its user: but those are the
    // ones that it serves, and they are to show and to see that each could trace the other.
    credentials::prctl(libc::PR_SET_DUMPABLE, 1)?;
    Ok(left)
}
