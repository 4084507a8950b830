//! Which process has sent a message: what the kernel says of the sender, compared with what the message says.

use super::{DATAGRAMS, junk};
use crate::closer;
use crate::conn::Role;
use crate::message::{self, Link, Message};
use core::net::{IpAddr, SocketAddr};
use sovia_control::Junk;
use sovia_sys::datagram::{Datagram, Name, Received};
use sovia_sys::{call, diag};

/// The next message that has the right form; others are counted and dropped.
pub(super) fn hear(socket: &Datagram) -> Option<(Message, Received)> {
    if closer::is_busy() {
        return None;
    }
    let mut buf = [0; message::LEN + 1];
    for _ in 0..DATAGRAMS {
        let received = socket.receive(&mut buf).ok()?;
        if received.truncated {
            junk(Junk::Size);
            continue;
        }
        match Message::decode(&buf[..received.len.min(buf.len())]) {
            Ok(message) => return Some((message, received)),
            Err(message::Junk::Shape) => junk(Junk::Size),
            Err(message::Junk::Version) => junk(Junk::Version),
        }
    }
    junk(Junk::Flood);
    None
}

/// Whether a message comes from the process that holds the other end of `link`.
pub(super) fn proven(link: &Link, role: Role, message: &Message, received: &Received) -> bool {
    if !message.link.same_connection(link) {
        junk(Junk::Stale);
        return false;
    }
    let Some((pid, uid)) = received.credentials else {
        junk(Junk::User);
        return false;
    };
    if uid != call::geteuid() || pid != message.from.pid {
        junk(Junk::User);
        return false;
    }
    if !owns_other_end(link, role, message.link.cookie, uid) {
        junk(Junk::Stale);
        return false;
    }
    true
}

/// Asks the kernel about the other end of `link`, where we play `role`.
pub(super) fn owns_other_end(link: &Link, role: Role, cookie: u64, uid: u32) -> bool {
    let owner = match role {
        Role::Connector => diag::tcp_owner(link.acceptor, link.connector),
        Role::Acceptor => diag::tcp_owner(link.connector, link.acceptor),
    };
    owner.is_ok_and(|owner| owner.cookie == cookie && owner.uid == uid)
}

/// The connection's addresses as the program's own end sees them, local first.
pub(crate) fn addresses(fd: i32) -> Option<(SocketAddr, SocketAddr)> {
    let name = |peer| {
        let address = call::socket_name(fd, peer).ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    };
    let (local, peer): (SocketAddr, SocketAddr) = (name(false)?, name(true)?);
    // A scoped address says nothing without its interface.
    let scoped = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
    (!scoped(local.ip())).then_some((local, peer))
}

pub(super) fn rendezvous(link: &Link) -> Option<Name> {
    Name::new(format!("sovia/{}-{}", link.connector, link.acceptor).as_bytes())
}
