//! Requests of connections: chooses the pair for a request, and finds the pair of an offer.

use super::Pair;
use super::table::{Using, each, get};
use crate::message::Process;
use core::net::SocketAddr;
use sovia_ring::request::DISCRIMINATOR;

/// Requests a connection from the process for whose pairs `is_its` returns true. Uses the first pair with a free VI
/// that this process has offered as the connector. If `is_complete`, the pair must be complete, else on offer. Two
/// processes have as many pairs as their connections need. A pair that a parent made is not used, because the peer
/// knows only the parent.
pub(crate) fn request_of(
    is_its: impl Fn(&Pair) -> bool,
    is_complete: bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let asked = |pair: &Pair| {
        is_its(pair) && pair.side == 0 && pair.is_own() && pair.has_doorbells() == is_complete
    };
    request_where(asked, discriminator)
}

/// Requests a connection from the process that has accepted connections at `server`. Returns `None` if several
/// processes have accepted connections there, because most guesses between them would be wrong. The pair must
/// satisfy `may`. If `is_complete`, the pair must be complete, else on offer.
pub(crate) fn request_at(
    server: SocketAddr,
    may: impl Fn(&Pair) -> bool,
    is_complete: bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let may_be = |pair: &Pair| {
        pair.server == Some(server) && (pair.is_own() || pair.has_doorbells()) && may(pair)
    };
    let (mut only, mut are_several) = (None, false);
    each(|_, pair| {
        if may_be(pair) && only != Some(pair.peer) && pair.peer_seems_there() {
            are_several |= only.replace(pair.peer).is_some();
        }
    });
    let process = only.filter(|_| !are_several)?;
    let asked =
        |pair: &Pair| pair.peer == process && pair.has_doorbells() == is_complete && may_be(pair);
    request_where(asked, discriminator)
}

/// Requests a VI from a NIC, in the first pair with a free VI that this process has made for the NIC.
pub(crate) fn request_of_nic(
    nic: Process,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    request_where(|pair| pair.is_nic && pair.peer == nic && pair.is_own(), discriminator)
}

/// Returns true if this process has a pair with this NIC, and the NIC lives. Asks the kernel.
pub(crate) fn is_served_by(nic: Process) -> bool {
    let mut serves = false;
    each(|_, pair| {
        serves |= pair.is_nic && pair.peer == nic && pair.is_own() && pair.peer_is_there();
    });
    serves
}

/// A request that this process has put into a segment's table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requested {
    /// Index of the pair.
    pub(crate) pair: u32,
    pub(crate) vi: u32,
}

fn request_where(
    asked: impl Fn(&Pair) -> bool,
    discriminator: &[u8; DISCRIMINATOR],
) -> Option<Requested> {
    let mut made = None;
    each(|index, pair| {
        if made.is_none() && asked(pair) {
            made = pair.request(discriminator).map(|vi| Requested { pair: index, vi });
        }
    });
    made
}

/// Returns the pair whose segment has this file identity, if `is_its` returns true for the pair and this process is
/// the pair's acceptor.
pub(crate) fn offered(is_its: impl Fn(&Pair) -> bool, file_id: (u64, u64)) -> Option<Using> {
    let mut found = None;
    each(|index, pair| {
        if is_its(pair) && pair.side == 1 && pair.file_id == file_id && pair.is_own() {
            found = Some(index);
        }
    });
    get(found?)
}
