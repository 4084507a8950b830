//! What the agent gives up before it hears a frame or a program: everything. Its port is open by then.

use sovia_sys::{Errno, Result, call, credentials};

/// Gives up all privileges, and every way to get some. Of root's the agent becomes that user, with that group.
///
/// # Errors
/// What the kernel says; `EPERM` if something is left.
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
