//! Sends a packet's bytes directly, from a copy, or from registered memory, as the configuration says (ICS section
//! 4.1).

use crate::conn::{Guard, HasEndpoint, PACKET_MAX};
use crate::memory;
use sovia_proto::configuration::Transfer;
use sovia_ring::endpoint::Unsent;
use sovia_sys::UserSlice;

const _: () = assert!(memory::BUFFER >= PACKET_MAX);

/// Sends `bytes` as one packet, in the way that the connection's configuration says. Returns false if the VI has no
/// room for the packet.
#[inline]
pub(super) fn post(
    guard: &mut Guard<'_>,
    packet: u32,
    bytes: UserSlice<'_>,
) -> Result<bool, Unsent> {
    match guard.protocol.transfer {
        Transfer::Auto => guard.endpoint().tx.send(packet, bytes),
        transfer => post_by(guard, transfer, packet, bytes),
    }
}

#[cold]
fn post_by(
    guard: &mut Guard<'_>,
    transfer: Transfer,
    packet: u32,
    bytes: UserSlice<'_>,
) -> Result<bool, Unsent> {
    let copies = match transfer {
        Transfer::Hybrid { threshold } => bytes.len() <= threshold as usize,
        Transfer::Copy | Transfer::Auto => true,
        Transfer::Reg => false,
    };
    if copies {
        if let Some(copied) = memory::copy(bytes) {
            return guard.endpoint().tx.send(packet, copied.bytes());
        }
    } else if let Some(region) = memory::register(bytes)
        && let Some(bytes) = region.read(bytes)
    {
        let sent = guard.endpoint().tx.send(packet, bytes)?;
        guard.traffic.messages_registered += u64::from(sent);
        return Ok(sent);
    }
    guard.endpoint().tx.send(packet, bytes)
}
