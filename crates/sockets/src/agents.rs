//! Connections to the agents of this host.

use core::ffi::CStr;
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Result, call, trace};

/// Connects to the agent at `path`.
///
/// # Errors
/// The errors of [`Packets::connect_file`]. `EACCES` if the agent's user is neither root nor this process's own
/// user.
pub(crate) fn connect(path: &CStr) -> Result<Packets> {
    let packets = Packets::connect_file(path.to_bytes())?;
    // `peer` gives the user who began to listen on the socket. In the default folder, only root can replace the
    // socket. Another path was chosen by the program's owner.
    let (_, uid) = packets.peer()?;
    if may_speak_for_root(uid) || uid == call::geteuid() { Ok(packets) } else { Err(Errno::EACCES) }
}

/// Returns true if `uid` may be the superuser. A user without a number in this user namespace may be the host's
/// superuser.
fn may_speak_for_root(uid: u32) -> bool {
    uid == 0 || trace::is_ambiguous(uid)
}
