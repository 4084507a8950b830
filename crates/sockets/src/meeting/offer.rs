//! The first meeting of two processes: Hello, Offer, Accept.

use super::proof::{hear, proven};
use super::{Stage, junk};
use crate::conn::Role;
use crate::message::{Link, Message, Process, Step};
use crate::{pair, sets};
use core::net::SocketAddr;
use sovia_control::{Junk, Reason};
use sovia_sys::datagram::{Datagram, Received};
use sovia_sys::{Fd, call};
use via_shm::Segment;
use via_shm::layout::DOORBELLS;
use via_shm::segment::AttachError;

/// Connector: a Hello has come.
///
/// # Errors
/// Why there is no segment to be offered.
pub(super) fn answer_hello(
    link: &Link,
    message: &Message,
    received: &Received,
) -> Result<Option<Stage>, Reason> {
    if message.step != Step::Hello {
        junk(Junk::Stale);
        return Ok(None);
    }
    if !proven(link, Role::Connector, message, received) {
        return Ok(None);
    }
    let (index, pair) = match pair::with(message.from, Role::Connector) {
        Some(known) => known,
        None => new_pair(message.from, link.acceptor)?,
    };
    let vi = pair.request(&link.encode());
    Ok(vi.map(|vi| Stage::Requested { pair: index, vi }))
}

fn new_pair(peer: Process, server: SocketAddr) -> Result<(u32, &'static pair::Pair), Reason> {
    let (segment, fd) = Segment::create().map_err(|_| Reason::NoMemory)?;
    pair::collect(sets::forget_pair);
    let index = pair::add(segment, 0, peer, Some(server)).ok_or(Reason::TableFull)?;
    let pair = pair::get(index).ok_or(Reason::TableFull)?;
    pair.file.with(|file| *file = Some(fd));
    Ok((index, pair))
}

/// Connector: hands the segment and our doorbells to the process that has said Hello. Again if an
/// earlier offer has not been answered: it may have come too late for the connection it was about.
pub(super) fn send_offer(pair: &pair::Pair, name: Datagram, offer: &Message, to: &Received) {
    let Some(to) = to.sender else { return };
    pair.file.with(|file| {
        let (Some(segment), Some(doors)) = (&*file, pair::doors()) else { return };
        let mut fds = [0; DOORBELLS + 1];
        fds[0] = segment.raw();
        fds[1..].copy_from_slice(&doors);
        if name.send_to(&to, &offer.encode(), &fds).is_ok() {
            // The answer comes to the name that the offer was sent from.
            pair.greetings.with(|names| names.push((offer.link, name)));
        }
    });
}

/// Acceptor: an Offer for one of our connections has come.
///
/// # Errors
/// Why the segment cannot be used.
pub(super) fn take_offer(
    inbox: &Datagram,
    link: &Link,
    message: &Message,
    mut received: Received,
) -> Result<(), Reason> {
    let dropped = |kind| {
        junk(kind);
        Ok(())
    };
    if received.fds.len() != DOORBELLS + 1 {
        return dropped(Junk::Descriptor);
    }
    if !proven(link, Role::Acceptor, message, &received) {
        return Ok(());
    }
    let (Some(to), Some(own)) = (received.sender, pair::doors()) else { return Ok(()) };
    let mut doors = received.fds.split_off(1);
    if !doors.iter().all(|door| is_doorbell(door.raw())) {
        return dropped(Junk::Descriptor);
    }
    doors.iter_mut().for_each(Fd::vouch);
    if !doors.iter().all(Fd::is_high) {
        return Err(Reason::NoDescriptors);
    }
    let known = pair::with(message.from, Role::Acceptor);
    let pair = match known {
        // Our answer to an earlier offer did not arrive.
        Some((_, pair)) => pair,
        None => {
            let segment = match Segment::attach(&received.fds[0]) {
                Ok(segment) => segment,
                Err(AttachError::Seals) => return dropped(Junk::Seal),
                Err(AttachError::Layout) => return dropped(Junk::Version),
                Err(AttachError::Map(_)) => return Err(Reason::NoMemory),
            };
            received.fds.iter_mut().for_each(Fd::vouch);
            pair::collect(sets::forget_pair);
            let added = pair::add(segment, 1, message.from, None).and_then(pair::get);
            added.ok_or(Reason::TableFull)?
        }
    };
    // Only now: the peer will believe that we hold the segment.
    let accept = Message { step: Step::Accept, from: pair::me(), link: *link }.encode();
    if inbox.send_to(&to, &accept, &own).is_ok() && !pair.has_doors() {
        pair.keep_doors(doors);
    }
    Ok(())
}

/// Connector: takes the peer's doorbells, which it sent before it accepted.
pub(super) fn hear_accept(index: u32) {
    let Some(pair) = pair::get(index) else { return };
    pair.greetings.with(|names| {
        for (_, name) in names.iter() {
            while let Some((message, mut received)) = hear(name) {
                let from_peer = message.step == Step::Accept
                    && message.from == pair.peer
                    && received.credentials == Some((pair.peer.pid, call::geteuid()));
                if from_peer && received.fds.iter().all(|door| is_doorbell(door.raw())) {
                    received.fds.iter_mut().for_each(Fd::vouch);
                    pair.keep_doors(received.fds);
                } else {
                    junk(Junk::Stale);
                }
            }
        }
        if pair.has_doors() {
            names.clear();
            pair.file.with(|file| *file = None);
        }
    });
}

/// Whether writing to a descriptor can neither block nor do anything but count.
pub(super) fn is_doorbell(fd: i32) -> bool {
    let mut target = [0u8; 64];
    let n = call::read_link(fd, &mut target).unwrap_or(0);
    target[..n].starts_with(b"anon_inode:[eventfd]") && call::is_nonblocking(fd)
}

/// The rendezvous name of a connection whose offer has not been answered, to be offered from again.
pub(super) fn take_name_back(index: u32, link: &Link) -> Option<Datagram> {
    pair::get(index)?.greetings.with(|names| {
        let i = names.iter().position(|(of, _)| of.same_connection(link))?;
        Some(names.swap_remove(i).1)
    })
}
