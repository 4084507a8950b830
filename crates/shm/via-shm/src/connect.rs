//! How two processes, or two threads of one, find each other and connect a VI.
//!
//! A process that waits for a connection listens at an abstract Unix name made of the user's id, the
//! NIC's address and the discriminator. It listens only while a thread waits: the kernel refuses
//! any other request at once. The two processes introduce themselves; the kernel
//! vouches for the user, and another user is turned away. At their first connection the requester
//! makes a segment and hands it over. Further VIs between the two, in either direction, use the
//! same segment, and another one is made when its VIs are all taken. A process that connects
//! to itself does the same, without handing anything over.
//!
//! A forked child has no part in its parent's VIs; it opens NICs and connects VIs of its own.

mod childless;
pub(crate) mod hub;
mod listen;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub(crate) use listen::Incoming;

use crate::doorbell::is_doorbell;
use crate::link::{Attachment, Link, Peer, Token};
use crate::patience::{Deadline, left};
use hub::Hub;
use sovia_sys::datagram::{Name, Received};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, call};
use std::sync::Arc;
use via::error::ConnectError;
use via::{NetAddress, ViAttributes};
use wire::{Answer, Request};

/// Bytes that a discriminator may have.
pub const DISCRIMINATOR_MAX: usize = 16;
/// Bytes of a NIC's address.
pub const HOST_LEN: usize = 6;

pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> ConnectError {
    move |errno| ConnectError::System { call, errno: errno.into_raw() }
}

/// Whether there can be such an address.
pub(crate) fn check(address: &NetAddress) -> Result<(), ConnectError> {
    if address.host.len() != HOST_LEN {
        return Err(ConnectError::InvalidParameter("not the address of a shared-memory NIC"));
    }
    if address.discriminator.len() > DISCRIMINATOR_MAX {
        return Err(ConnectError::InvalidParameter("the discriminator is too long"));
    }
    Ok(())
}

/// The name at which an address is waited at.
fn name_of(uid: u32, address: &NetAddress) -> Result<Name, ConnectError> {
    check(address)?;
    let text = format!("sovia-vi-{uid}-{address}");
    Name::new(text.as_bytes()).ok_or(ConnectError::InvalidParameter("the address is too long"))
}

/// The next message on a connection; `None` when the other end is gone.
fn receive(
    socket: &Packets,
    buf: &mut [u8],
    until: Deadline,
) -> Result<Option<Received>, ConnectError> {
    loop {
        match socket.receive(buf) {
            Ok(received) if received.len == 0 => return Ok(None),
            Ok(received) => return Ok(Some(received)),
            // The other end has closed without reading all. What it sent before is still there; if it
            // sent nothing, the end is next.
            Err(Errno::ECONNRESET) => {}
            Err(Errno::EAGAIN | Errno::EINTR) => wait_readable(socket.raw(), until)?,
            Err(e) => return Err(system("recvmsg")(e)),
        }
    }
}

fn wait_readable(fd: i32, until: Deadline) -> Result<(), ConnectError> {
    let mut fds = [PollFd { fd, events: libc::POLLIN, revents: 0 }];
    match ppoll(&mut fds, left(until), None) {
        Ok(0) => Err(ConnectError::Timeout),
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(e) => Err(system("ppoll")(e)),
    }
}

/// Connects to the listener at `name`; waits while its queue is full.
fn reach(name: &Name, until: Deadline) -> Result<Packets, ConnectError> {
    const PAUSE: u64 = 1_000_000;
    loop {
        match Packets::connect(name) {
            Ok(socket) => return Ok(socket),
            Err(Errno::ECONNREFUSED) => return Err(ConnectError::NoMatch),
            Err(Errno::EAGAIN) if left(until) == Some(0) => return Err(ConnectError::Timeout),
            Err(Errno::EAGAIN | Errno::EINTR) => {
                let _ = ppoll(&mut [], Some(left(until).unwrap_or(PAUSE).min(PAUSE)), None);
            }
            Err(e) => return Err(system("connect")(e)),
        }
    }
}

/// A request for a connection, from the requester's side.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) local: &'a NetAddress,
    pub(crate) remote: &'a NetAddress,
    pub(crate) attributes: ViAttributes,
    pub(crate) until: Deadline,
}

impl Outgoing<'_> {
    /// Carries the request out. `attach` is called with the end taken before the peer hears of
    /// it, more than once if a first one turns out to be of no use.
    pub(crate) fn run(
        &self,
        mut attach: impl FnMut(&Arc<Packets>, &Arc<Attachment>) -> Result<(), ConnectError>,
    ) -> Result<(Arc<Attachment>, ViAttributes), ConnectError> {
        let name = name_of(self.hub.uid, self.remote)?;
        check(self.local)?;
        let socket = Arc::new(reach(&name, self.until)?);
        if socket.peer().map_err(system("getsockopt"))?.1 != self.hub.uid {
            return Err(ConnectError::NotReachable("the peer belongs to another user"));
        }
        let mut buf = [0; wire::MESSAGE_MAX];
        // The listener has closed without accepting: its thread waits no more, or never got round to it.
        let welcome = receive(&socket, &mut buf, self.until)?.ok_or(ConnectError::NoMatch)?;
        const VERSION: ConnectError =
            ConnectError::NotReachable("the peer has another version of Sovia");
        let (token, token_at) = wire::read_welcome(&buf[..welcome.len]).ok_or(VERSION)?;
        let doorbell = welcome.fds.into_iter().next().filter(is_doorbell).ok_or(VERSION)?;

        if let Some(attachment) = self.take(&token) {
            attach(&socket, &attachment)?;
            let answer = self.ask(&socket, &attachment, None)?;
            if answer != Answer::UnknownLink {
                return accepted(answer, attachment);
            }
            self.hub.engine.forget(&attachment.link);
        }
        let to_self = token == *self.hub.token;
        let (side, via) = if to_self { (None, None) } else { (Some(0), Some(socket.clone())) };
        let peer = Peer { token, side, socket: via, doorbell, token_at };
        let (attachment, fd) = self.take_new(peer)?;
        let link = attachment.link.clone();
        let answer =
            attach(&socket, &attachment).and_then(|()| self.ask(&socket, &attachment, fd.as_ref()));
        match answer {
            Ok(answer) => {
                link.set_shared();
                accepted(answer, attachment)
            }
            Err(error) => {
                // It is unknown whether the peer has it.
                drop(attachment);
                self.hub.engine.forget(&link);
                Err(error)
            }
        }
    }

    /// Takes a VI of a link to the peer that there is already.
    fn take(&self, peer: &Token) -> Option<Arc<Attachment>> {
        let links = self.hub.engine.links();
        let mut links =
            links.iter().filter(|link| link.peer == *peer && link.is_shared() && link.is_sound());
        links.find_map(Attachment::request).map(Arc::new)
    }

    /// Takes a VI of a new link, with the segment to hand over.
    fn take_new(&self, peer: Peer) -> Result<(Arc<Attachment>, Option<Fd>), ConnectError> {
        let (segment, fd) = crate::Segment::create().map_err(system("memfd_create or mmap"))?;
        let mut id = [0; 8];
        call::getrandom(&mut id).map_err(system("getrandom"))?;
        let to_self = peer.side.is_none();
        let link = Arc::new(Link::new(segment, u64::from_le_bytes(id), peer));
        self.hub.engine.keep(link.clone());
        let attachment =
            Attachment::request(&link).ok_or(ConnectError::Resource("VIs of a new segment"))?;
        Ok((Arc::new(attachment), (!to_self).then_some(fd)))
    }

    fn ask(
        &self,
        socket: &Packets,
        attachment: &Attachment,
        fd: Option<&Fd>,
    ) -> Result<Answer, ConnectError> {
        const GONE: ConnectError = ConnectError::NotReachable("the peer's process has ended");
        let request = Request {
            token: *self.hub.token,
            token_at: self.hub.token_at(),
            link: attachment.link.id,
            vi: attachment.vi,
            attributes: self.attributes,
            local: self.local.clone(),
        };
        // With the segment goes the way to wake us.
        let fds: Vec<_> =
            fd.iter().flat_map(|fd| [fd.raw(), self.hub.engine.doorbell().raw()]).collect();
        match socket.send(&request.write(), &fds) {
            // A listener that has closed may have sent its answer before.
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(e) => return Err(system("sendmsg")(e)),
        }
        let mut buf = [0; wire::MESSAGE_MAX];
        let received = receive(socket, &mut buf, self.until)?.ok_or(GONE)?;
        match Answer::read(&buf[..received.len]) {
            // The listener has not read the request, and has not taken the segment.
            Some(Answer::NobodyWaits) => Err(Answer::NobodyWaits.error()),
            Some(answer) => Ok(answer),
            None => Err(ConnectError::NotReachable("the peer has another version of Sovia")),
        }
    }
}

fn accepted(
    answer: Answer,
    attachment: Arc<Attachment>,
) -> Result<(Arc<Attachment>, ViAttributes), ConnectError> {
    match answer {
        Answer::Accepted(attributes) => Ok((attachment, attributes)),
        refused => Err(refused.error()),
    }
}
