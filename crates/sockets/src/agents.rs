//! Connections to the agents of this host.

use core::ffi::CStr;
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Result, call, trace};

/// Connects to the agent at `path`.
///
/// # Errors
/// The errors of [`Packets::connect_file`]. `EACCES` if the agent belongs to a user other than root and this process's
/// own.
pub(crate) fn connect(path: &CStr) -> Result<Packets> {
    let packets = Packets::connect_file(path.to_bytes())?;
    // User who began to listen on the socket. Only root can replace the socket in the default folder. For another path,
    // the program's owner has chosen the socket.
    let (_, uid) = packets.peer()?;
    if may_speak_for_root(uid) || uid == call::geteuid() { Ok(packets) } else { Err(Errno::EACCES) }
}

/// Returns true for the superuser. Also true for a user without a number in this user namespace, as the host's
/// superuser may be.
fn may_speak_for_root(uid: u32) -> bool {
    uid == 0 || trace::is_ambiguous(uid)
}
