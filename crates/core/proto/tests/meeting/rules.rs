//! What is varied: which processes there are, what may happen to them, and which precautions they take.

use crate::meeting::world::{A, A2, C};

/// Which processes have the ends of the two connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scene {
    /// Both lie between the same two processes, in the same direction.
    Same,
    /// The second one was accepted by another worker.
    Workers,
    /// Likewise, and that worker was forked from the first one at some time.
    Forked,
    /// The second one goes the other way.
    Crossed,
}

impl Scene {
    /// The processes of a connection: its connector, its acceptor.
    pub(crate) fn processes(self, conn: usize) -> [usize; 2] {
        match (self, conn) {
            (Scene::Crossed, 1) => [A, C],
            (Scene::Workers | Scene::Forked, 1) => [C, A2],
            _ => [C, A],
        }
    }

    /// The listener of a connection.
    pub(crate) fn server(self, conn: usize) -> usize {
        if self == Scene::Crossed { conn } else { 0 }
    }
}

/// What may happen in a run of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Ends may be closed at any time.
    pub(crate) closes: bool,
    /// Their patience may end: they stay on TCP.
    pub(crate) impatience: bool,
    /// Connectors that know the peer's doorbells come onto the VI with their request, and grant it.
    pub(crate) early: bool,
    /// Processes may be killed.
    pub(crate) deaths: bool,
    /// Strangers may bind names first and send that many messages, with any claims.
    pub(crate) attacks: u8,
    /// Datagrams that a socket holds.
    pub(crate) room: usize,
    /// The kernel still tells the owner of an end that has just been closed.
    pub(crate) remembers_closed: bool,
}

impl Limits {
    pub(crate) const CALM: Limits = Limits {
        closes: false,
        impatience: false,
        early: false,
        deaths: false,
        attacks: 0,
        room: 1,
        remembers_closed: false,
    };
    pub(crate) const CLOSING: Limits = Limits { closes: true, ..Limits::CALM };
    pub(crate) const DEADLY: Limits = Limits { closes: true, deaths: true, ..Limits::CALM };
    pub(crate) const ATTACKED: Limits = Limits { attacks: 1, ..Limits::CALM };
}

/// Where a connector hears the answers to its offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// At its process's inbox, from which it sends them.
    Inbox,
    /// At the rendezvous names from which it has sent them; all stay until the doorbells are known.
    EveryName,
    /// At the last of those names.
    LastName,
}

/// The precautions of the meeting. Each has a test that leaves it out and sees something go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precautions {
    /// The speaker's user, by the kernel, is our own.
    pub(crate) check_user: bool,
    /// Its process, by the kernel, is the one that it claims to be.
    pub(crate) check_process: bool,
    /// The cookie that it names is that of the connection's other end.
    pub(crate) check_cookie: bool,
    /// An acceptor takes the very request that it has found: its word in the table changes each
    /// time the VI is requested.
    pub(crate) accept_what_was_found: bool,
    /// It takes it by compare-exchange.
    pub(crate) accept_by_exchange: bool,
    /// A connector takes its request back by compare-exchange.
    pub(crate) withdraw_by_exchange: bool,
    /// It does so likewise with one for a VI that it is on already.
    pub(crate) revoke_by_exchange: bool,
    /// If that comes too late, it leaves the VI.
    pub(crate) leave_what_was_accepted: bool,
    /// A VI is made fresh when it is requested.
    pub(crate) recycle: bool,
    /// Only a request that was taken loses its pending bit to the acceptor.
    pub(crate) clear_what_was_taken: bool,
    /// A connector attaches only when it knows the peer's doorbells.
    pub(crate) doors_first: bool,
    /// It keeps the segment's file until then, and offers it again.
    pub(crate) keep_file: bool,
    /// Where the answers to offers go.
    pub(crate) answers: Answers,
    /// A connector without the doorbells hears what has come at each look, not only when its
    /// request has been accepted.
    pub(crate) hear_always: bool,
    /// An acceptor uses an offer only if its answer could be sent.
    pub(crate) answer_first: bool,
    /// It answers an offer from a process that it knows.
    pub(crate) answer_again: bool,
    /// Processes know each other by role: there is one segment for each direction of connecting.
    pub(crate) pairs_by_role: bool,
    /// What was inherited over a fork does not count as knowing the peer.
    pub(crate) own_pairs: bool,
    /// A connector whose request is not taken goes back to the rendezvous name.
    pub(crate) try_other_way: bool,
    /// An acceptor says Hello again.
    pub(crate) greet_again: bool,
}

impl Precautions {
    pub(crate) const ALL: Precautions = Precautions {
        check_user: true,
        check_process: true,
        check_cookie: true,
        accept_what_was_found: true,
        accept_by_exchange: true,
        withdraw_by_exchange: true,
        revoke_by_exchange: true,
        leave_what_was_accepted: true,
        recycle: true,
        clear_what_was_taken: true,
        doors_first: true,
        keep_file: true,
        answers: Answers::Inbox,
        hear_always: true,
        answer_first: true,
        answer_again: true,
        pairs_by_role: true,
        own_pairs: true,
        try_other_way: true,
        greet_again: true,
    };
}
