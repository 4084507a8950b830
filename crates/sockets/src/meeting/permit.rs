//! Which candidates may have a VI, and by which NIC.

use super::{addresses, give_up};
use crate::conn::Role;
use crate::kept::{self, is_local};
use crate::message::Link;
use crate::table::{self, Ref};
use crate::{config, sets};
use core::sync::atomic::Ordering;
use sovia_control::{End, NicName, Reason};
use sovia_sys::{call, trace};

/// A candidate's addresses and its end's cookie, if it may be accelerated; otherwise it stays on TCP.
pub(super) fn permitted(fd: i32, at: Ref) -> Option<Link> {
    if !table::is_socket_of(fd, at.conn) {
        give_up(at, Reason::Replaced);
        return None;
    }
    let Some((local, peer)) = addresses(fd) else {
        give_up(at, Reason::NotConnected);
        return None;
    };
    at.conn.show_addresses(local, peer);
    if !call::is_tcp(fd) {
        // The kernel has made another socket of it than the program has asked for (MPTCP).
        give_up(at, Reason::RetreatUlp);
        return None;
    }
    let end = end_of(at);
    if !is_local(local, peer)
        && config::nic(end, local, peer).is_none()
        && !(config::trusts_some(end, local, peer) && config::agent().is_some())
    {
        give_up(at, Reason::PeerNotLocal);
        return None;
    }
    if let Some(reason) = config::keeps_on_tcp() {
        give_up(at, reason);
        return None;
    }
    if !config::allows(end, local, peer) {
        give_up(at, Reason::Rule);
        return None;
    }
    kept::look_at_switch();
    if let Some(reason) = kept::refusal(end, local, peer) {
        // Another look may find none.
        at.conn.keep_for(Some(reason));
        return None;
    }
    at.conn.keep_for(None);
    if trace::is_ambiguous(call::geteuid()) {
        give_up(at, Reason::UnknownUser);
        return None;
    }
    if sets::is_nested(at) {
        give_up(at, Reason::RetreatCall);
        return None;
    }
    let cookie = at.conn.cookie.load(Ordering::Relaxed);
    let (connector, acceptor) = match at.conn.role() {
        Role::Connector => (local, peer),
        Role::Acceptor => (peer, local),
    };
    Some(Link { connector, acceptor, cookie })
}

/// Returns why a connection may not be accelerated now, if so.
pub(crate) fn refusal(fd: i32, at: Ref) -> Option<Reason> {
    if !kept::may_refuse() {
        return None;
    }
    let (local, peer) = addresses(fd)?;
    kept::refusal(end_of(at), local, peer)
}

/// The NIC that the rules name for a candidate, if they do.
#[cold]
#[inline(never)]
pub(super) fn nic_of(fd: i32, at: Ref) -> Option<&'static NicName> {
    let (local, peer) = addresses(fd)?;
    let name = config::nic(end_of(at), local, peer)?;
    at.conn.show_addresses(local, peer);
    at.conn.show_nic(name);
    Some(name)
}

/// Which end of its connection this process has.
fn end_of(at: Ref) -> End {
    match at.conn.role() {
        Role::Connector => End::Connector,
        Role::Acceptor => End::Acceptor,
    }
}
