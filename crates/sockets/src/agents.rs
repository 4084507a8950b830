//! Connections to the agents of this host.

use core::ffi::CStr;
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Result, call, trace};

/// Connects to the agent at `path`.
///
/// # Errors
/// Those of [`Packets::connect_file`]; `EACCES` for an agent of another user than root and this process's own.
pub(crate) fn connect(path: &CStr) -> Result<Packets> {
    let packets = Packets::connect_file(path.to_bytes())?;
    // The user who began to listen there. Whoever can put another socket there can also choose where this process
    // looks: the folder is root's, or the program's owner has named another one.
    let (_, uid) = packets.peer()?;
    if may_speak_for_root(uid) || uid == call::geteuid() { Ok(packets) } else { Err(Errno::EACCES) }
}

/// Returns true for the superuser, and for a user without a number here, as the host's is in a user namespace.
fn may_speak_for_root(uid: u32) -> bool {
    uid == 0 || trace::is_ambiguous(uid)
}
