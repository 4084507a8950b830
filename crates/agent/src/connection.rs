//! One VI of a program's, from its request to its end.

use crate::hosts::PeerId;
use crate::numbers::{Numbers, Reader};
use crate::program::{NIC, PROGRAM, Program, READY_LIST};
use crate::wire::Id;
use core::net::SocketAddr;
use sovia_proto::meeting::Link;
use sovia_proto::word;
use sovia_reflect::{Reflection, Told};
use sovia_sys::diag;
use via_shm::request::{Pending, Used};

/// Bytes that a VI's last use may leave in memory, in each range of the segment.
const KEPT: usize = 4 << 10;

/// Something that a far NIC has been sent, and not acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Since when (nanoseconds).
    pub(crate) since: u64,
    /// The number of the channel's part before which it is.
    pub(crate) until: u64,
}

/// A VI that a program has requested.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The program's number.
    pub(crate) program: u64,
    /// The far NIC that may speak for the far program.
    pub(crate) peer: PeerId,
    /// The request. Its VI may be requested for another connection once it is withdrawn.
    pub(crate) request: Pending,
    pub(crate) link: Link,
    pub(crate) is_connector: bool,
    /// The sequence numbers of the program's socket.
    pub(crate) numbers: Numbers,
    /// The VI's number at the far NIC, and the VI, once both ends have asked for it.
    pub(crate) joined: Option<(Id, Reflection)>,
    /// The program has left it, or no process of the program's holds the connection any more.
    pub(crate) is_left: bool,
    /// The far NIC has nothing of it any more, and is sent nothing.
    pub(crate) is_alone: bool,
    /// What the far NIC has not acknowledged of what it has been sent, where TCP_USER_TIMEOUT asks.
    pub(crate) waits: Option<Waits>,
    /// Since when the far program's TCP is known to have ended, while this program may hold its socket still.
    pub(crate) asked_at: Option<u64>,
}

/// The doorbell of the program's thread that watches anchors.
const PROGRESS: u32 = 0;

/// A connection by its addresses, and whether the end that is meant has connected.
pub(crate) type Key = (SocketAddr, SocketAddr, bool);

impl Connection {
    /// What a program requests a VI for; `number` is the program's.
    pub(crate) fn requested(program: &Program, number: u64, vi: u32) -> Option<Connection> {
        let mut found = None;
        program.segment.pending(NIC, |request, discriminator| {
            if request.vi == vi {
                found = Link::with_role(discriminator).map(|link| (request, link));
            }
        });
        let (request, (link, is_connector)) = found?;
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
            waits: None,
            asked_at: None,
        })
    }

    /// What the other end of it is asked for by.
    pub(crate) fn other_end(&self) -> Key {
        (self.link.connector, self.link.acceptor, !self.is_connector)
    }

    /// The program's own end.
    pub(crate) fn own_end(&self) -> Key {
        (self.link.connector, self.link.acceptor, self.is_connector)
    }

    /// The addresses of the program's socket, its own first.
    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self.is_connector {
            true => (self.link.connector, self.link.acceptor),
            false => (self.link.acceptor, self.link.connector),
        }
    }

    /// Whether the kernel has the socket that the program says to hold, made by that user.
    pub(crate) fn is_vouched_for(&self, uid: u32) -> bool {
        let (own, peer) = self.addresses();
        diag::tcp_owner(own, peer)
            .is_ok_and(|owner| owner.cookie == self.link.cookie && owner.uid == uid)
    }

    /// Learns the sequence numbers of the program's socket, which must be that user's; whether that could be.
    pub(crate) fn learn_numbers(&mut self, reader: &Reader, uid: u32) -> bool {
        let (own, peer) = self.addresses();
        let numbers = reader.read(own, peer, self.is_connector);
        self.numbers = numbers.unwrap_or_default();
        // The same socket before and after: they are not those of another one that has its addresses now.
        numbers.is_some() && self.is_vouched_for(uid)
    }

    /// The address of the far program's socket.
    pub(crate) fn far_address(&self) -> SocketAddr {
        self.addresses().1
    }

    /// Whether these are the numbers of the other end of this very connection.
    pub(crate) fn fits(&self, far: Numbers) -> bool {
        let (connector, acceptor) =
            if self.is_connector { (self.numbers, far) } else { (far, self.numbers) };
        Numbers::are_of_one(connector, acceptor)
    }

    /// Whether any process holds the program's socket. Where the kernel does not say, one does.
    pub(crate) fn is_held(&self) -> bool {
        let (own, peer) = self.addresses();
        match diag::tcp_owner(own, peer) {
            Ok(owner) => owner.is_held && owner.cookie == self.link.cookie,
            Err(error) => error != sovia_sys::Errno::ENOENT,
        }
    }

    /// The VI's number in the program's segment.
    pub(crate) fn vi(&self) -> u32 {
        self.request.vi
    }

    /// Whether the program asks for the VI still, or has it.
    pub(crate) fn is_wanted(&self, program: &Program) -> bool {
        self.joined.is_some() || program.segment.requested(NIC, self.vi()) == Some(self.request)
    }

    /// Whether the program has requested the VI for another connection since.
    pub(crate) fn is_replaced(&self, program: &Program) -> bool {
        program.segment.requested(NIC, self.vi()).is_some_and(|request| request != self.request)
    }

    /// The far NIC has the other end: the program's request is accepted. False if the program has withdrawn it.
    pub(crate) fn join(&mut self, program: &Program, far: Id) -> bool {
        if !self.is_wanted(program) {
            return false;
        }
        let reflection = Reflection::new(program.segment.clone(), self.vi(), PROGRAM);
        // First: what the program says once it has the VI must be heard.
        program.segment.direction(self.vi(), PROGRAM).bell.watch(READY_LIST);
        program.segment.direction(self.vi(), NIC).room.watch(READY_LIST);
        if !program.segment.accept(NIC, self.request) {
            return false;
        }
        self.joined = Some((far, reflection));
        true
    }

    /// Looks whether the program has left the VI; before what it has published is looked at for the last time.
    pub(crate) fn look_for_leaving(&mut self, program: &Program) {
        if !self.is_left && program.segment.peer_left(NIC, self.vi()) {
            self.leave(false);
        }
    }

    /// The program publishes nothing any more.
    pub(crate) fn leave(&mut self, has_died: bool) {
        self.is_left = true;
        if let Some((_, reflection)) = &mut self.joined {
            reflection.end(has_died);
        }
    }

    /// Whether nothing is left to be sent or to be received.
    pub(crate) fn is_over(&self) -> bool {
        self.joined.as_ref().is_some_and(|(_, reflection)| {
            let told = reflection.has_ended() || self.is_alone;
            let heard = reflection.has_come_to_end() || self.is_alone;
            self.is_left && told && heard
        })
    }

    /// The NIC is done with the VI.
    pub(crate) fn give_back(&self, program: &Program) {
        if self.joined.is_some() {
            program.segment.leave(NIC, self.vi(), Used::Much, KEPT);
        }
    }

    /// Wakes those of the program that are to look at the VI.
    pub(crate) fn wake(&self, program: &Program, told: Told) {
        if let Some((_, reflection)) = &self.joined {
            reflection.tell(told, |ready_lists| program.notify(self.vi(), ready_lists));
            if told.progress {
                program.ring(PROGRESS);
            }
        }
    }

    /// The VI is broken: the program's connection ends with an error. `how`: [`word::BROKEN`] or [`word::TIMED_OUT`].
    pub(crate) fn break_off(&mut self, program: &Program, how: u64) {
        self.is_alone = true;
        // One that has come to its end has all that the peer had published.
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
    use sovia_sys::{Fd, call};
    use via_shm::Segment;
    use via_shm::layout::DOORBELLS;

    /// A program, and its own view of the segment.
    fn program() -> (Segment, Program) {
        let (segment, file) = Segment::create().unwrap();
        let doorbell = || Fd::make(|| call::eventfd(libc::EFD_NONBLOCK)).unwrap();
        // What tells of its death is never looked at here.
        let handed = core::iter::once(file).chain((0..DOORBELLS + 2).map(|_| doorbell()));
        (segment, Program::of(handed.collect(), 0).unwrap())
    }

    fn request(segment: &Segment, port: u16) -> u32 {
        let connector = SocketAddr::from(([127, 0, 0, 1], port));
        let acceptor = SocketAddr::from(([127, 0, 0, 1], 1));
        let link = Link { connector, acceptor, cookie: 0 };
        segment.request_connection(PROGRAM, &link.of_role(true)).unwrap()
    }

    /// Else two connections of a program's would get each other's bytes.
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
