//! Finds the process that waits at an address, and connects a VI to a VI of this process.
//!
//! A process that waits for a connection listens at an abstract Unix socket name. The name consists of the user's
//! id, the NIC's address and the discriminator. The process listens only while one of its threads waits. At other
//! times the kernel refuses each request at once.
//!
//! When a requester has connected, the kernel reports each process's user to the other one, and a process of
//! another user is turned away. The two processes then exchange tokens, which identify them. For the first
//! connection between the two processes, the requester creates a segment and passes its file descriptor to the
//! peer. For later connections, in either direction, they use other VIs of this segment. If all VIs that the
//! requester may use are in use, it creates another segment. A process that connects to itself takes the same
//! steps, but passes no file descriptor.
//!
//! A forked child cannot use its parent's VIs, but can open NICs and connect VIs of its own.

mod childless;
pub(crate) mod hub;
mod listen;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

pub(crate) use listen::Incoming;

use crate::link::{Attachment, Link, Peer, Token};
use crate::patience::{Deadline, left};
use hub::Hub;
use sovia_ring::doorbell::is_doorbell;
use sovia_sys::datagram::{Name, Received};
use sovia_sys::poll::{PollFd, ppoll};
use sovia_sys::seqpacket::Packets;
use sovia_sys::{Errno, Fd, call};
use std::sync::Arc;
use via::error::ConnectError;
use via::{NetAddress, ViAttributes};
use wire::{Answer, Request};

/// Maximum length of a discriminator in bytes.
pub const DISCRIMINATOR_MAX: usize = 16;
/// Length of a NIC's address in bytes.
pub const HOST_LEN: usize = 6;

pub(crate) fn system(call: &'static str) -> impl Fn(Errno) -> ConnectError {
    move |errno| ConnectError::System { call, errno: errno.into_raw() }
}

/// Checks the form of an address.
pub(crate) fn check(address: &NetAddress) -> Result<(), ConnectError> {
    if address.host.len() != HOST_LEN {
        return Err(ConnectError::InvalidParameter("not the address of a shared-memory NIC"));
    }
    if address.discriminator.len() > DISCRIMINATOR_MAX {
        return Err(ConnectError::InvalidParameter("the discriminator is too long"));
    }
    Ok(())
}

/// Returns the socket name at which a process waits for requests to `address`.
fn name_of(uid: u32, address: &NetAddress) -> Result<Name, ConnectError> {
    check(address)?;
    let text = format!("sovia-vi-{uid}-{address}");
    Name::new(text.as_bytes()).ok_or(ConnectError::InvalidParameter("the address is too long"))
}

/// Receives the next message on a connection; `None` if the other end has closed.
fn receive(
    socket: &Packets,
    buf: &mut [u8],
    until: Deadline,
) -> Result<Option<Received>, ConnectError> {
    loop {
        match socket.receive(buf) {
            Ok(received) if received.len == 0 => return Ok(None),
            Ok(received) => return Ok(Some(received)),
            // The other end closed its socket before it had read all messages of this end. Messages that the other
            // end sent before the close are still readable. If there are none, the next receive returns length 0.
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

/// Connects to the listener at `name`. Waits while the listener's backlog is full.
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

/// A request for a connection, at the requester.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) local: &'a NetAddress,
    pub(crate) remote: &'a NetAddress,
    pub(crate) attributes: ViAttributes,
    pub(crate) until: Deadline,
}

impl Outgoing<'_> {
    /// Requests the connection. Calls `attach` with the requester's end of the VI before the peer learns of the
    /// request. If the peer does not know the link of this end, calls `attach` again with an end on a new link.
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
        // If the listener closed before it accepted the connection, no thread waits at the address any more.
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
                // Do not use the segment again, because the peer may or may not have mapped it.
                drop(attachment);
                self.hub.engine.forget(&link);
                Err(error)
            }
        }
    }

    /// Takes a VI of an existing link to the peer.
    fn take(&self, peer: &Token) -> Option<Arc<Attachment>> {
        let links = self.hub.engine.links();
        let mut links =
            links.iter().filter(|link| link.peer == *peer && link.is_shared() && link.is_sound());
        links.find_map(Attachment::request).map(Arc::new)
    }

    /// Creates a link and takes one of its VIs. Also returns the segment's file descriptor to pass to the peer;
    /// `None` if the peer is this process.
    fn take_new(&self, peer: Peer) -> Result<(Arc<Attachment>, Option<Fd>), ConnectError> {
        let (segment, fd) =
            sovia_ring::Segment::create().map_err(system("memfd_create or mmap"))?;
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
        // Together with the segment, pass the doorbell that wakes this process's engine.
        let fds: Vec<_> =
            fd.iter().flat_map(|fd| [fd.raw(), self.hub.engine.doorbell().raw()]).collect();
        match socket.send(&request.write(), &fds) {
            // If the listener has closed the socket, it may have sent its answer before the close. Read this answer
            // below.
            Ok(()) | Err(Errno::EPIPE | Errno::ECONNRESET) => {}
            Err(e) => return Err(system("sendmsg")(e)),
        }
        let mut buf = [0; wire::MESSAGE_MAX];
        let received = receive(socket, &mut buf, self.until)?.ok_or(GONE)?;
        match Answer::read(&buf[..received.len]) {
            // Return an error, not an answer: the listener has not read the request, so it has not mapped the
            // segment.
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
