//! State of the model of a rendezvous: the kernel's sockets and names, the segments with their tables of requests,
//! and the knowledge of each process.

/// Numbers of the processes. `A2` is another worker behind the same listener as `A`.
pub(crate) const C: usize = 0;
pub(crate) const A: usize = 1;
pub(crate) const A2: usize = 2;
pub(crate) const PROCESSES: usize = 3;
/// Another user's process. It may know everything, but the kernel reports its user.
pub(crate) const OTHER_USER: usize = 3;
/// Another process of the same user, without an end of the connection.
pub(crate) const NAMESAKE: usize = 4;

pub(crate) const CONNECTIONS: usize = 2;
pub(crate) const SEGMENTS: usize = 3;
/// A segment that an attacker offers.
pub(crate) const FOREIGN: usize = 9;
/// Number of VIs in a segment. Side 0 requests VIs with even numbers, side 1 those with odd numbers.
pub(crate) const VIS: usize = 3;

/// Roles of the two ends of a connection.
pub(crate) const CONNECTOR: usize = 0;
pub(crate) const ACCEPTOR: usize = 1;

/// State of an end in its rendezvous.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum End {
    /// The end has not looked yet.
    New,
    /// Connector: has bound the rendezvous name.
    Bound,
    /// Connector: has requested this VI in this segment.
    Requested(usize, usize),
    Looking {
        greeted: bool,
    },
    Attached(usize, usize),
    /// Connector: attached to the VI, but does not know yet whether the acceptor has taken the request.
    Early(usize, usize),
    /// On TCP for good.
    Plain,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum MessageKind {
    Hello,
    Offer,
    Accept,
}

/// A datagram. The kernel reports `sender`. The sender writes all other fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Message {
    pub(crate) kind: MessageKind,
    pub(crate) from: usize,
    pub(crate) sender: usize,
    pub(crate) conn: usize,
    /// Set if the cookie is the cookie of the other end's socket.
    pub(crate) cookie: bool,
    pub(crate) segment: usize,
}

/// Queue of a socket. A full queue refuses datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Queue([Option<Message>; 3]);

impl Queue {
    pub(crate) fn push(&mut self, message: Message, room: usize) -> bool {
        match self.0[..room].iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(message);
                true
            }
            None => false,
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        let first = self.0[0].take();
        self.0.rotate_left(1);
        first
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

/// State of a connection's rendezvous name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NameState {
    None,
    OtherUser,
    Rendezvous,
    /// The connector has sent an offer of this segment from the name, and receives the answer here. Used only if
    /// answers do not go to the inbox.
    Greeting(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Name {
    pub(crate) state: NameState,
    pub(crate) queue: Queue,
}

impl Name {
    pub(crate) const FREE: Name = Name { state: NameState::None, queue: Queue([None; 3]) };
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Free,
    Requested,
    Accepted,
}

/// An entry of a segment's table, and the VI behind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Vi {
    pub(crate) phase: Phase,
    /// The connection for which the connector has requested the VI.
    pub(crate) conn: usize,
    /// The bit that tells the acceptor to look at the entry.
    pub(crate) pending: bool,
    pub(crate) left: [bool; 2],
    /// The connection that each side has attached. An attached end may grant at once, so this is also the grant
    /// that the other side sees. It stays until the VI is reset.
    pub(crate) granted: [Option<usize>; 2],
}

impl Vi {
    const FRESH: Vi =
        Vi { phase: Phase::Free, conn: 0, pending: false, left: [false; 2], granted: [None; 2] };

    pub(crate) fn is_free(&self) -> bool {
        self.phase == Phase::Free || self.phase == Phase::Accepted && self.left == [true; 2]
    }
}

/// A segment. A connector (side 0) makes it for the process that sent Hello.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Segment {
    pub(crate) maker: usize,
    pub(crate) peer: usize,
    /// Listener through which the maker reached the peer.
    pub(crate) server: usize,
    pub(crate) vis: [Vi; VIS],
}

impl Segment {
    pub(crate) fn new(maker: usize, peer: usize, server: usize) -> Segment {
        Segment { maker, peer, server, vis: [Vi::FRESH; VIS] }
    }

    pub(crate) fn side(&self, process: usize) -> usize {
        usize::from(process != self.maker)
    }
}

/// A process's data about a segment that it has mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pair {
    /// Set if the process knows the peer's doorbells.
    pub(crate) doorbells: bool,
    /// Set while the process has the segment's file, and can offer it.
    pub(crate) file: bool,
    /// Set if the process inherited the segment by fork.
    pub(crate) inherited: bool,
}

/// Step of a process in the middle of a look. A lock allows one look at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    Outside,
    /// Connector: has made the request, and must send the offer to this process.
    Offer {
        conn: usize,
        segment: usize,
        to: usize,
    },
    /// Connector: has bound the name again, and must take its request back.
    Withdraw {
        conn: usize,
    },
    /// Acceptor: has received all messages, and must look for a request.
    Find {
        conn: usize,
    },
    /// Acceptor: has found and checked a request. `fresh` is cleared when the VI is requested again.
    Found {
        conn: usize,
        segment: usize,
        vi: usize,
        fresh: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ProcessState {
    Unborn,
    Alive,
    Dead,
}

/// Violation that leaves no other trace in the state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Breach {
    /// Descriptors went to a process that does not have the other end.
    HandedOut,
    /// Descriptors came from a process that does not have the other end.
    TakenIn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) process_states: [ProcessState; PROCESSES],
    pub(crate) at: [At; PROCESSES],
    pub(crate) inbox: [Queue; PROCESSES],
    pub(crate) pairs: [[Option<Pair>; SEGMENTS]; PROCESSES],
    pub(crate) segments: [Option<Segment>; SEGMENTS],
    pub(crate) names: [Name; CONNECTIONS],
    pub(crate) ends: [[End; 2]; CONNECTIONS],
    /// Number of messages that attackers may still send.
    pub(crate) attacks: u8,
    pub(crate) breach: Option<Breach>,
}

impl End {
    /// Returns the segment and the VI to which the end is attached.
    pub(crate) fn vi(self) -> Option<(usize, usize)> {
        match self {
            End::Attached(s, v) | End::Early(s, v) => Some((s, v)),
            _ => None,
        }
    }
}

impl World {
    /// Returns the entry of a VI in an existing segment.
    pub(crate) fn vi(&mut self, segment: usize, vi: usize) -> &mut Vi {
        &mut self.segments[segment].as_mut().expect("a segment in use").vis[vi]
    }

    pub(crate) fn segment(&self, segment: usize) -> &Segment {
        self.segments[segment].as_ref().expect("a segment in use")
    }

    pub(crate) fn pair(&mut self, process: usize, segment: usize) -> &mut Pair {
        self.pairs[process][segment].as_mut().expect("a pair in use")
    }

    /// Returns true if the process is alive. Attackers live for ever.
    pub(crate) fn is_alive(&self, process: usize) -> bool {
        self.process_states
            .get(process)
            .is_none_or(|&process_states| process_states == ProcessState::Alive)
    }

    pub(crate) fn is_open(&self, conn: usize, role: usize) -> bool {
        self.ends[conn][role] != End::Closed
    }
}
