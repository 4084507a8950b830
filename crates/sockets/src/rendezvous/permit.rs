//! Permission of a connection to have a VI, and the NIC that the rules name.

use super::{addresses, give_up};
use crate::conn::Role;
use crate::message::Link;
use crate::table::{self, Ref};
use crate::tcp_reasons::{self, is_local};
use crate::{config, epoll_sets};
use core::sync::atomic::Ordering;
use sovia_control::{End, NicRule, Reason};
use sovia_sys::{call, trace};

/// Returns a connection's addresses and its socket's cookie, if the connection may be accelerated. If not, the
/// connection stays on TCP, for now or for good.
pub(super) fn permitted(fd: i32, at: Ref) -> Option<Link> {
    if !table::is_socket_of(fd, at.conn) {
        // A signal handler may have closed `fd` during this step.
        if table::refers(fd, at) {
            give_up(at, Reason::Replaced);
        }
        return None;
    }
    let Some((local, peer)) = addresses(fd) else {
        give_up(at, Reason::NotConnected);
        return None;
    };
    at.conn.show_addresses(local, peer);
    if !call::is_tcp(fd) {
        // The kernel has made a socket of another protocol than the program asked for (MPTCP).
        give_up(at, Reason::FallbackUlp);
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
    tcp_reasons::look_at_switch();
    if let Some(reason) = tcp_reasons::refusal(end, local, peer) {
        // Do not give up the connection, because the reason may be gone at a later step.
        at.conn.keep_for(Some(reason));
        return None;
    }
    at.conn.keep_for(None);
    if trace::is_ambiguous(call::geteuid()) {
        give_up(at, Reason::UnknownUser);
        return None;
    }
    if epoll_sets::is_nested(at) {
        give_up(at, Reason::FallbackCall);
        return None;
    }
    let cookie = at.conn.cookie.load(Ordering::Relaxed);
    let (connector, acceptor) = match at.conn.role() {
        Role::Connector => (local, peer),
        Role::Acceptor => (peer, local),
    };
    Some(Link { connector, acceptor, cookie })
}

/// Returns the reason why a connection must stay on TCP for now, if there is such a reason.
pub(crate) fn refusal(fd: i32, at: Ref) -> Option<Reason> {
    if !tcp_reasons::may_refuse() {
        return None;
    }
    let (local, peer) = addresses(fd)?;
    tcp_reasons::refusal(end_of(at), local, peer)
}

/// Returns the NIC that the rules name for a connection, if any.
#[cold]
#[inline(never)]
pub(super) fn nic_of(fd: i32, at: Ref) -> Option<NicRule<'static>> {
    let (local, peer) = addresses(fd)?;
    let rule = config::nic(end_of(at), local, peer)?;
    at.conn.show_addresses(local, peer);
    at.conn.show_nic(rule.name);
    Some(rule)
}

/// Returns which end of the connection this process has: connector or acceptor.
fn end_of(at: Ref) -> End {
    match at.conn.role() {
        Role::Connector => End::Connector,
        Role::Acceptor => End::Acceptor,
    }
}
