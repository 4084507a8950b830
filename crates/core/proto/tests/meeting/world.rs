//! What the model of the meeting consists of: the kernel's sockets and names, the segments with
//! their tables of requests, and what each process knows.

/// The processes. `A2` is another worker behind the same listener as `A`.
pub(crate) const C: usize = 0;
pub(crate) const A: usize = 1;
pub(crate) const A2: usize = 2;
pub(crate) const PROCESSES: usize = 3;
/// Another user's process: it may know everything, but the kernel tells its user.
pub(crate) const STRANGER: usize = 3;
/// Another process of the same user, which does not have the connection.
pub(crate) const NAMESAKE: usize = 4;

pub(crate) const CONNECTIONS: usize = 2;
pub(crate) const SEGMENTS: usize = 3;
/// A segment that an attacker offers.
pub(crate) const FOREIGN: usize = 9;
/// Even numbers are requested by side 0, odd ones by side 1.
pub(crate) const VIS: usize = 3;

/// The ends of a connection.
pub(crate) const CONNECTOR: usize = 0;
pub(crate) const ACCEPTOR: usize = 1;

/// Where an end of a connection is with its meeting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum End {
    /// Has not looked yet.
    New,
    /// Connector: bound to the rendezvous name.
    Bound,
    /// Connector: request made, in that segment, for that VI.
    Requested(usize, usize),
    Looking {
        greeted: bool,
    },
    Attached(usize, usize),
    /// Connector: attached, and its request has not been seen to be answered.
    Early(usize, usize),
    /// On TCP for good.
    Plain,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Hello,
    Offer,
    Accept,
}

/// A datagram. `speaker` is the kernel's word, the rest the message's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Message {
    pub(crate) step: Step,
    pub(crate) from: usize,
    pub(crate) speaker: usize,
    pub(crate) conn: usize,
    /// The cookie is that of the other end's socket.
    pub(crate) cookie: bool,
    pub(crate) segment: usize,
}

/// A socket's queue; what finds it full is refused.
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

/// What is bound to a connection's rendezvous name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Holder {
    None,
    Stranger,
    Meeting,
    /// An offer of that segment was sent from here, and the answer comes here (only where answers
    /// do not come to the inbox).
    Greeting(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Name {
    pub(crate) holder: Holder,
    pub(crate) queue: Queue,
}

impl Name {
    pub(crate) const FREE: Name = Name { holder: Holder::None, queue: Queue([None; 3]) };
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
    /// The connection that it was requested for.
    pub(crate) conn: usize,
    /// The bit that tells the acceptor to look.
    pub(crate) pending: bool,
    pub(crate) left: [bool; 2],
    /// The connection that each side has attached. An attached end may grant at once, so this is
    /// also what the other side sees as a grant; it stays until the VI is made fresh.
    pub(crate) granted: [Option<usize>; 2],
}

impl Vi {
    const FRESH: Vi =
        Vi { phase: Phase::Free, conn: 0, pending: false, left: [false; 2], granted: [None; 2] };

    pub(crate) fn is_free(&self) -> bool {
        self.phase == Phase::Free || self.phase == Phase::Accepted && self.left == [true; 2]
    }
}

/// A segment, made by a connector (side 0) for the process that said Hello.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Segment {
    pub(crate) maker: usize,
    pub(crate) peer: usize,
    /// The listener through which its maker came to it.
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

/// What a process has of a segment that it has mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pair {
    /// The peer's doorbells are known.
    pub(crate) doors: bool,
    /// The segment's file is still there to be offered.
    pub(crate) file: bool,
    /// It was there before this process was forked.
    pub(crate) inherited: bool,
}

/// Where a process is in the middle of a look. One look at a time: they hold a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum At {
    Outside,
    /// Connector: the request is made, the offer is still to be sent to that process.
    Offer {
        conn: usize,
        segment: usize,
        to: usize,
    },
    /// Connector: has bound the name again, and is to take its request back.
    Withdraw {
        conn: usize,
    },
    /// Acceptor: has heard what there was, and is to look for a request.
    Find {
        conn: usize,
    },
    /// Acceptor: has found and proven one. `fresh` until that VI is requested anew.
    Found {
        conn: usize,
        segment: usize,
        vi: usize,
        fresh: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Life {
    Unborn,
    Alive,
    Dead,
}

/// What must never happen, and leaves no other mark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Breach {
    /// Descriptors went to a process that does not have the other end.
    HandedOut,
    /// Descriptors were taken from such a process.
    TakenIn,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) life: [Life; PROCESSES],
    pub(crate) at: [At; PROCESSES],
    pub(crate) inbox: [Queue; PROCESSES],
    pub(crate) pairs: [[Option<Pair>; SEGMENTS]; PROCESSES],
    pub(crate) segments: [Option<Segment>; SEGMENTS],
    pub(crate) names: [Name; CONNECTIONS],
    pub(crate) ends: [[End; 2]; CONNECTIONS],
    /// Messages that attackers may still send.
    pub(crate) attacks: u8,
    pub(crate) breach: Option<Breach>,
}

impl End {
    /// The segment and the VI that the end is on.
    pub(crate) fn vi(self) -> Option<(usize, usize)> {
        match self {
            End::Attached(s, v) | End::Early(s, v) => Some((s, v)),
            _ => None,
        }
    }
}

impl World {
    /// The VI's entry; its segment is there.
    pub(crate) fn vi(&mut self, segment: usize, vi: usize) -> &mut Vi {
        &mut self.segments[segment].as_mut().expect("a segment in use").vis[vi]
    }

    pub(crate) fn segment(&self, segment: usize) -> &Segment {
        self.segments[segment].as_ref().expect("a segment in use")
    }

    pub(crate) fn pair(&mut self, process: usize, segment: usize) -> &mut Pair {
        self.pairs[process][segment].as_mut().expect("a pair in use")
    }

    /// Attackers live for ever.
    pub(crate) fn is_alive(&self, process: usize) -> bool {
        self.life.get(process).is_none_or(|&life| life == Life::Alive)
    }

    pub(crate) fn is_open(&self, conn: usize, role: usize) -> bool {
        self.ends[conn][role] != End::Closed
    }
}
