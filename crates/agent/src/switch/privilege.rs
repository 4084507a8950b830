//! Gives up all privileges before the agent receives a frame or accepts a program. Its port is open by then.

use sovia_sys::{Errno, Result, call, credentials};

/// Gives up all privileges, and every way to gain new ones. If the agent runs as root, it becomes the given user and
/// group.
///
/// # Errors
/// The error of a system call; `EPERM` if a privilege remains.
pub(super) fn give_up(user: Option<(u32, u32)>) -> Result<()> {
    credentials::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    credentials::drop_bounding_set();
    if let Some((uid, gid)) = user
        && call::geteuid() == 0
    {
        credentials::become_user(uid, gid)?;
    }
    credentials::keep_capabilities(&[])?;
    if call::geteuid() == 0 || credentials::capabilities()? != [0; 6] {
        return Err(Errno::EPERM);
    }
    Ok(())
}
