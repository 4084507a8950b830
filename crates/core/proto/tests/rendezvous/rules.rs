//! Variations of the model: its processes, the possible events, and the precautions.

use crate::rendezvous::world::{A, A2, C};

/// Distribution of the two connections' ends over the processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scene {
    /// Both connections are between the same two processes, in the same direction.
    Same,
    /// Another worker accepted the second connection.
    Workers,
    /// Another worker accepted the second connection. The first worker forks this worker at some time.
    Forked,
    /// The second connection goes in the opposite direction.
    Crossed,
}

impl Scene {
    /// Returns the processes of a connection: its connector and its acceptor.
    pub(crate) fn processes(self, conn: usize) -> [usize; 2] {
        match (self, conn) {
            (Scene::Crossed, 1) => [A, C],
            (Scene::Workers | Scene::Forked, 1) => [C, A2],
            _ => [C, A],
        }
    }

    /// Returns the listener of a connection.
    pub(crate) fn server(self, conn: usize) -> usize {
        if self == Scene::Crossed { conn } else { 0 }
    }
}

/// Events that a run of the model may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Ends may be closed at any time.
    pub(crate) closes: bool,
    /// Ends may give up, and then stay on TCP.
    pub(crate) impatience: bool,
    /// Connectors that know the peer's doorbells attach to the VI with their request, and grant the VI.
    pub(crate) early: bool,
    /// Processes may be killed.
    pub(crate) deaths: bool,
    /// Number of messages that other users' processes may send, with any content. They may also bind names first.
    pub(crate) attacks: u8,
    /// Number of datagrams that a socket holds.
    pub(crate) room: usize,
    /// The kernel still reports the owner of an end that has just been closed.
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

/// Socket at which a connector receives the answers to its offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// The inbox of the connector's process, from which it sends offers.
    Inbox,
    /// The rendezvous names from which it has sent offers. It keeps all names until it knows the doorbells.
    EveryName,
    /// The last of these rendezvous names.
    LastName,
}

/// Precautions of the rendezvous. For each except `answer_again`, a test leaves the precaution out and finds a
/// violated property.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precautions {
    /// The kernel reports this process's user for the sender of a message.
    pub(crate) check_user: bool,
    /// The kernel reports the process that the message claims as its sender.
    pub(crate) check_process: bool,
    /// The cookie in the message is the cookie of the connection's other end.
    pub(crate) check_cookie: bool,
    /// An acceptor takes only the request that it has found. The request's word in the table changes each time a
    /// connector requests the VI.
    pub(crate) accept_what_was_found: bool,
    /// An acceptor takes a request by compare-exchange.
    pub(crate) accept_by_exchange: bool,
    /// A connector takes its request back by compare-exchange.
    pub(crate) withdraw_by_exchange: bool,
    /// A connector that has attached to the VI early also takes its request back by compare-exchange.
    pub(crate) revoke_by_exchange: bool,
    /// A connector that takes its request back too late leaves the VI.
    pub(crate) leave_what_was_accepted: bool,
    /// A connector resets a VI's state when it requests the VI.
    pub(crate) recycle: bool,
    /// An acceptor clears the pending bit only of a request that it has taken.
    pub(crate) clear_what_was_taken: bool,
    /// A connector attaches only when it knows the peer's doorbells.
    pub(crate) doorbells_first: bool,
    /// A connector keeps the segment's file until it knows the doorbells, and can offer the file again.
    pub(crate) keep_file: bool,
    /// Socket at which a connector receives the answers to its offers.
    pub(crate) answers: Answers,
    /// A connector without the doorbells receives messages at each look, not only after its request has been
    /// accepted.
    pub(crate) receive_always: bool,
    /// An acceptor uses an offer only if it could send its answer.
    pub(crate) answer_first: bool,
    /// An acceptor also answers an offer from a process that it already knows.
    pub(crate) answer_again: bool,
    /// A pair of processes has one segment for each direction of connecting.
    pub(crate) pairs_by_role: bool,
    /// A pair that was inherited over a fork does not count as known.
    pub(crate) own_pairs: bool,
    /// A connector whose request is not taken goes back to the rendezvous name.
    pub(crate) try_other_way: bool,
    /// An acceptor sends Hello again.
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
        doorbells_first: true,
        keep_file: true,
        answers: Answers::Inbox,
        receive_always: true,
        answer_first: true,
        answer_again: true,
        pairs_by_role: true,
        own_pairs: true,
        try_other_way: true,
        greet_again: true,
    };
}
