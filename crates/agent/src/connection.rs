//! One VI of a program, from its request to its end.

use crate::hosts::PeerId;
use crate::numbers::{Numbers, Reader};
use crate::program::{NIC, PROGRAM, Program, READY_LIST};
use crate::wire::{Id, Message};
use core::net::SocketAddr;
use sovia_proto::rendezvous::Link;
use sovia_proto::word;
use sovia_reflect::{Reflection, Told};
use sovia_ring::request::{Pending, Used};
use sovia_sys::diag;

/// Bytes that a finished VI may leave allocated in each range of the segment.
const KEPT: usize = 4 << 10;

/// Data sent to a remote NIC that the remote NIC has not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Start of the wait, in nanoseconds.
    pub(crate) since: u64,
    /// Number of the channel's first part after the data.
    pub(crate) until: u64,
}

/// A VI that a program has requested.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Number of the program in this NIC.
    pub(crate) program: u64,
    /// The remote NIC that may offer the other end.
    pub(crate) peer: PeerId,
    /// The program's request. The program may withdraw the request, and request the same VI for another connection.
    pub(crate) request: Pending,
    pub(crate) link: Link,
    pub(crate) is_connector: bool,
    /// Sequence numbers of the program's socket.
    pub(crate) numbers: Numbers,
    /// The remote NIC's number of the connection, and the reflection. Set when both ends have requested the
    /// connection.
    pub(crate) joined: Option<(Id, Reflection)>,
    /// Set when the program has left the VI, or no process of the program holds the connection.
    pub(crate) is_left: bool,
    /// Set when the remote NIC no longer has the connection. From then on, this NIC sends nothing about the
    /// connection.
    pub(crate) is_alone: bool,
    /// Number of times that the end was offered again after the two ends were joined here.
    pub(crate) repeats: u8,
    /// Data that the remote NIC has not acknowledged. Used only if the program has set TCP_USER_TIMEOUT.
    pub(crate) waits: Option<Waits>,
    /// Number of messages that the program has sent since its last answer; 0 if the program has not connected, but
    /// accepted.
    pub(crate) unanswered: u32,
    /// Second in which the program last sent a message.
    pub(crate) sent_in: u64,
    /// Time when the remote program's TCP was found to have ended. This program may still hold its socket.
    pub(crate) asked_at: Option<u64>,
}

/// Doorbell of the program's progress thread.
const PROGRESS: u32 = 0;

/// One end of a connection: the connector's address, the acceptor's address, and true for the connector's end.
pub(crate) type Key = (SocketAddr, SocketAddr, bool);

impl Connection {
    /// Finds the program's request for `vi`. `number` is the program's number in this NIC.
    pub(crate) fn requested(program: &Program, number: u64, vi: u32) -> Option<Connection> {
        let (request, discriminator) = program.segment.pending_on(NIC, vi)?;
        let (link, is_connector) = Link::with_role(&discriminator)?;
        Some(Connection {
            program: number,
            peer: 0,
            request,
            link,
            is_connector,
            numbers: Numbers::default(),
            joined: None,
            is_left: false,
            is_alone: false,
            repeats: 0,
            waits: None,
            unanswered: 0,
            sent_in: 0,
            asked_at: None,
        })
    }

    /// Returns the key of the connection's other end.
    pub(crate) fn other_end(&self) -> Key {
        (self.link.connector, self.link.acceptor, !self.is_connector)
    }

    /// Returns the key of the program's own end.
    pub(crate) fn own_end(&self) -> Key {
        (self.link.connector, self.link.acceptor, self.is_connector)
    }

    /// Returns the offer of the program's end, as connection `id`.
    pub(crate) fn offer(&self, id: Id) -> Message<'static> {
        Message::Offer(id, self.link, self.is_connector, self.numbers)
    }

    /// Returns the addresses of the program's socket, its own address first.
    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self.is_connector {
            true => (self.link.connector, self.link.acceptor),
            false => (self.link.acceptor, self.link.connector),
        }
    }

    /// Returns true if the kernel has the socket that the program claims, and the socket belongs to user `uid`.
    pub(crate) fn is_vouched_for(&self, uid: u32) -> bool {
        let (own, peer) = self.addresses();
        diag::tcp_owner(own, peer)
            .is_ok_and(|owner| owner.cookie == self.link.cookie && owner.uid == uid)
    }

    /// Reads the sequence numbers of the program's socket. Returns false if this failed, or if the socket does not
    /// belong to user `uid`.
    pub(crate) fn learn_numbers(&mut self, reader: &Reader, uid: u32) -> bool {
        let (own, peer) = self.addresses();
        let Some(numbers) = reader.read(own, peer, self.is_connector) else { return false };
        self.numbers = numbers;
        // The caller has checked the same before. So the numbers are not those of a newer socket with the same
        // addresses.
        self.is_vouched_for(uid)
    }

    /// Returns the address of the remote program's socket.
    pub(crate) fn far_address(&self) -> SocketAddr {
        self.addresses().1
    }

    /// Returns true if `far` are the sequence numbers of the other end of this connection.
    pub(crate) fn fits(&self, far: Numbers) -> bool {
        let (connector, acceptor) =
            if self.is_connector { (self.numbers, far) } else { (far, self.numbers) };
        Numbers::are_of_one(connector, acceptor)
    }

    /// Returns true if a process holds the program's socket, or if the kernel does not tell.
    pub(crate) fn is_held(&self) -> bool {
        let (own, peer) = self.addresses();
        match diag::tcp_owner(own, peer) {
            Ok(owner) => owner.is_held && owner.cookie == self.link.cookie,
            Err(error) => error != sovia_sys::Errno::ENOENT,
        }
    }

    /// Returns the VI's number in the program's segment.
    pub(crate) fn vi(&self) -> u32 {
        self.request.vi
    }

    /// Returns true while the program requests or has the VI.
    pub(crate) fn is_wanted(&self, program: &Program) -> bool {
        self.joined.is_some() || program.segment.requested(NIC, self.vi()) == Some(self.request)
    }

    /// Returns true if the program has since requested the VI for another connection.
    pub(crate) fn is_replaced(&self, program: &Program) -> bool {
        program.segment.requested(NIC, self.vi()).is_some_and(|request| request != self.request)
    }

    /// Accepts the program's request after the remote NIC has offered the other end. Returns false if the program has
    /// withdrawn the request.
    pub(crate) fn join(&mut self, program: &Program, far: Id) -> bool {
        if !self.is_wanted(program) {
            return false;
        }
        let reflection = Reflection::new(program.segment.clone(), self.vi(), PROGRAM);
        // Watch these words before the request is accepted. From then on, the program's events must reach the ready
        // list.
        program.segment.direction(self.vi(), PROGRAM).wake_word.watch(READY_LIST);
        program.segment.direction(self.vi(), NIC).room.watch(READY_LIST);
        if !program.segment.accept(NIC, self.request) {
            return false;
        }
        self.joined = Some((far, reflection));
        true
    }

    /// Checks if the program has left the VI. Call this before the program's words are collected, so that the last
    /// ones are sent.
    pub(crate) fn look_for_leaving(&mut self, program: &Program) {
        if !self.is_left && program.segment.peer_left(NIC, self.vi()) {
            self.leave(false);
        }
    }

    /// Records that the program publishes nothing more. `has_died` is true if the program did not leave the VI
    /// itself.
    pub(crate) fn leave(&mut self, has_died: bool) {
        self.is_left = true;
        if let Some((_, reflection)) = &mut self.joined {
            reflection.end(has_died);
        }
    }

    /// Returns true if there is nothing left to send or to receive.
    pub(crate) fn is_over(&self) -> bool {
        self.joined.as_ref().is_some_and(|(_, reflection)| {
            let told = reflection.has_ended() || self.is_alone;
            let heard = reflection.has_come_to_end() || self.is_alone;
            self.is_left && told && heard
        })
    }

    /// Leaves the VI's slot in the segment. The NIC does not use the VI afterwards.
    pub(crate) fn give_back(&self, program: &Program) {
        if self.joined.is_some() {
            program.segment.leave(NIC, self.vi(), Used::Much, KEPT);
        }
    }

    /// Notifies the program's threads that `told` selects.
    pub(crate) fn wake(&self, program: &Program, told: Told) {
        if let Some((_, reflection)) = &self.joined {
            reflection.tell(told, |ready_lists| program.notify(self.vi(), ready_lists));
            if told.progress {
                program.ring(PROGRESS);
            }
        }
    }

    /// Breaks the VI: the program's connection ends with an error. `how` is [`word::BROKEN`] or [`word::TIMED_OUT`].
    pub(crate) fn break_off(&mut self, program: &Program, how: u64) {
        self.is_alone = true;
        // After the end, the program already has everything that the peer published, so there is no error to report.
        if let Some((_, reflection)) = &self.joined
            && !reflection.has_come_to_end()
        {
            let direction = program.segment.direction(self.vi(), NIC);
            direction.writer.store(word::GONE, how);
            self.wake(program, Told::ALL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sovia_ring::Segment;
    use sovia_ring::layout::DOORBELLS;
    use sovia_sys::{Fd, call};

    /// Makes a program's segment, and the NIC's view of the program.
    fn program() -> (Segment, Program) {
        let (segment, file) = Segment::create().unwrap();
        let doorbell = || Fd::make(|| call::eventfd(libc::EFD_NONBLOCK)).unwrap();
        // This test never reads the notices, so any descriptors will do.
        let handed = core::iter::once(file).chain((0..DOORBELLS + 2).map(|_| doorbell()));
        (segment, Program::of(handed.collect(), 0).unwrap())
    }

    fn request(segment: &Segment, port: u16) -> u32 {
        let connector = SocketAddr::from(([127, 0, 0, 1], port));
        let acceptor = SocketAddr::from(([127, 0, 0, 1], 1));
        let link = Link { connector, acceptor, cookie: 0 };
        segment.request_connection(PROGRAM, &link.of_role(true)).unwrap()
    }

    /// Otherwise two connections of a program would receive each other's bytes.
    #[test]
    fn a_request_that_has_replaced_another_on_its_vi_is_not_taken_for_that() {
        let (segment, program) = program();
        let vi = request(&segment, 1000);
        let mut first = Connection::requested(&program, 1, vi).unwrap();
        assert!(first.is_wanted(&program) && !first.is_replaced(&program));
        assert!(segment.withdraw(PROGRAM, vi));
        assert!(!first.is_wanted(&program) && !first.is_replaced(&program));
        assert_eq!(request(&segment, 2000), vi);
        assert!(!first.is_wanted(&program) && first.is_replaced(&program));
        assert!(!first.join(&program, 7));
        let mut second = Connection::requested(&program, 1, vi).unwrap();
        assert_eq!(second.link.connector.port(), 2000);
        assert!(second.join(&program, 7) && second.is_wanted(&program));
    }
}
