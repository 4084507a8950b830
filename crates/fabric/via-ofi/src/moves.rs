//! Moves of long messages between this NIC and others, and the messages of each side about them.
//!
//! | the receiver | the sender |
//! |---|---|
//! | expects an announced message under a ticket that it draws, and says that it is ready | |
//! | | lends the message's memory, and says by which keys |
//! | fetches the bytes, and then says that the memory is the sender's again | |
//! | | takes it back |
//!
//! These messages may get lost with the connection below libfabric. So each side repeats its message until the answer
//! comes. Each side also answers messages about unknown moves. The sender then says that it sends nothing, and the
//! receiver says that it fetches nothing. The provider fetches the bytes and reports the end of each fetch. A failed
//! fetch begins again with "ready". So each move ends on both sides, or with the loss of the peer.

use crate::nodes::Node;
use sovia_ofi::{Part, Span};
use sovia_softnic::moving::{Expected, MoveId};
use std::collections::BTreeMap;

/// Number of failed fetches after which a move ends: the memory of one side is probably invalid.
const TRIES: u32 = 16;

/// Stage of an expected message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The sender has been notified. `just_now` is true until the next call of [`Moves::again`].
    Told { just_now: bool },
    /// A fetch is in progress.
    Fetching,
    /// A fetch is in progress, but the sender has ended the move or is probably lost.
    Doomed,
}

/// Memory in which a message is expected.
#[derive(Debug)]
struct Place {
    id: MoveId,
    message: Expected<Node>,
    into: Vec<Span>,
    stage: Stage,
    failed: u32,
}

/// Memory of a message that its receiver may fetch.
#[derive(Debug)]
struct Lent {
    id: MoveId,
    parts: Vec<Part>,
    just_now: bool,
}

/// Next step for an expected message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// No step is needed.
    Nothing,
    /// Fetch the message.
    Fetch,
    /// Tell the sender again that memory is ready.
    Tell(Expected<Node>),
    /// The move is over, and this node may take back its memory; true if all bytes are there.
    Over(MoveId, Node, bool),
}

/// A message to repeat.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Ready(u64, Expected<Node>),
    Lent(Node, u64, Vec<Part>),
}

/// All moves of a NIC, except those to itself.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Expected messages, by ticket.
    expected: BTreeMap<u64, Place>,
    /// Lent memory, by receiver and the receiver's ticket.
    lent: BTreeMap<(Node, u64), Lent>,
}

impl Moves {
    pub(crate) fn is_empty(&self) -> bool {
        self.expected.is_empty() && self.lent.is_empty()
    }

    /// Returns true if a message is expected under this ticket.
    pub(crate) fn has(&self, ticket: u64) -> bool {
        self.expected.contains_key(&ticket)
    }

    /// Records that a message is expected. The caller notifies its sender.
    pub(crate) fn expect(
        &mut self,
        ticket: u64,
        id: MoveId,
        message: Expected<Node>,
        into: Vec<Span>,
    ) {
        let stage = Stage::Told { just_now: true };
        self.expected.insert(ticket, Place { id, message, into, stage, failed: 0 });
    }

    /// Records that memory is lent. The caller notifies its receiver.
    pub(crate) fn lend(&mut self, to: Node, ticket: u64, id: MoveId, parts: Vec<Part>) {
        self.lent.insert((to, ticket), Lent { id, parts, just_now: true });
    }

    /// Returns the memory lent to a node for this ticket.
    pub(crate) fn lent(&self, to: Node, ticket: u64) -> Option<&[Part]> {
        self.lent.get(&(to, ticket)).map(|lent| &lent.parts[..])
    }

    /// Records that the receiver fetches nothing more. Returns the move that is over.
    pub(crate) fn returned(&mut self, from: Node, ticket: u64) -> Option<MoveId> {
        self.lent.remove(&(from, ticket)).map(|lent| lent.id)
    }

    /// Records that a node has lent the memory of an expected message. Returns `None` if no message of this node is
    /// expected under the ticket.
    pub(crate) fn offered(&mut self, from: Node, ticket: u64) -> Option<Next> {
        let place = self.expected.get_mut(&ticket).filter(|it| it.message.from == from)?;
        if !matches!(place.stage, Stage::Told { .. }) {
            return Some(Next::Nothing);
        }
        place.stage = Stage::Fetching;
        Some(Next::Fetch)
    }

    /// Returns the memory for the message expected under a ticket.
    pub(crate) fn place(&self, ticket: u64) -> &[Span] {
        self.expected.get(&ticket).map_or(&[], |place| &place.into)
    }

    /// Records the end of a fetch. Returns the next step.
    pub(crate) fn fetched(&mut self, ticket: u64, is_done: bool) -> Next {
        let Some(place) = self.expected.get_mut(&ticket) else { return Next::Nothing };
        place.failed += u32::from(!is_done);
        if is_done || place.stage == Stage::Doomed || place.failed >= TRIES {
            let (id, from) = (place.id, place.message.from);
            self.expected.remove(&ticket);
            return Next::Over(id, from, is_done);
        }
        place.stage = Stage::Told { just_now: true };
        Next::Tell(place.message)
    }

    /// Records that a node does not send the message expected under a ticket. Returns the move that is over, unless a
    /// fetch is in progress.
    ///
    /// # Errors
    /// Fails if no message of this node is expected under the ticket.
    pub(crate) fn withdrawn(&mut self, from: Node, ticket: u64) -> Result<Option<MoveId>, ()> {
        let place = self.expected.get_mut(&ticket).filter(|it| it.message.from == from);
        let place = place.ok_or(())?;
        if !matches!(place.stage, Stage::Told { .. }) {
            place.stage = Stage::Doomed;
            return Ok(None);
        }
        Ok(self.expected.remove(&ticket).map(|place| place.id))
    }

    /// Ends the moves with a node that is probably lost. Returns the ended moves to the node, whose memory must be
    /// taken back, and the ended moves from the node.
    pub(crate) fn abandon(&mut self, node: Node) -> (Vec<MoveId>, Vec<MoveId>) {
        let to = |(of, _): &(Node, u64)| *of == node;
        let lent: Vec<_> = self.lent.keys().copied().filter(to).collect();
        let lent = lent.into_iter().filter_map(|key| self.lent.remove(&key)).map(|it| it.id);
        let tickets = self.expected.iter().filter(|(_, place)| place.message.from == node);
        let tickets: Vec<_> = tickets.map(|(ticket, _)| *ticket).collect();
        let lent = lent.collect();
        let over = |ticket| self.withdrawn(node, ticket).ok().flatten();
        (lent, tickets.into_iter().filter_map(over).collect())
    }

    /// Returns the messages that must be repeated, because no answer has come since the last call.
    pub(crate) fn again(&mut self) -> Vec<Again> {
        let mut again = Vec::new();
        for (&ticket, place) in &mut self.expected {
            match &mut place.stage {
                Stage::Told { just_now: just_now @ true } => *just_now = false,
                Stage::Told { .. } => again.push(Again::Ready(ticket, place.message)),
                Stage::Fetching | Stage::Doomed => {}
            }
        }
        for (&(node, ticket), lent) in &mut self.lent {
            if !core::mem::replace(&mut lent.just_now, false) {
                again.push(Again::Lent(node, ticket, lent.parts.clone()));
            }
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;
    use sovia_link::wire::EndId;

    fn nodes() -> [Node; 2] {
        let mut nodes = Nodes::new(b"own", true);
        [b"one", b"two"].map(|address| nodes.find(address).unwrap())
    }

    fn expecting(from: Node) -> (Moves, Expected<Node>) {
        let message = Expected { from, ends: [EndId(1), EndId(2)], number: 3 };
        let mut moves = Moves::default();
        moves.expect(7, MoveId(1), message, Vec::new());
        (moves, message)
    }

    #[test]
    fn what_is_not_answered_is_said_again_but_not_at_once() {
        let [one, two] = nodes();
        let (mut moves, message) = expecting(one);
        moves.lend(two, 9, MoveId(2), Vec::new());
        assert_eq!(moves.again(), []);
        let both = [Again::Ready(7, message), Again::Lent(two, 9, Vec::new())];
        assert_eq!((moves.again(), moves.again()), (Vec::from(both), moves.again()));
        assert_eq!(moves.offered(one, 7), Some(Next::Fetch));
        assert_eq!(moves.again(), [Again::Lent(two, 9, Vec::new())], "it is being fetched");
        assert_eq!((moves.returned(one, 9), moves.returned(two, 9)), (None, Some(MoveId(2))));
        assert_eq!(moves.again(), []);
    }

    #[test]
    fn what_cannot_be_fetched_is_asked_for_again_and_then_given_up() {
        let [one, two] = nodes();
        let (mut moves, message) = expecting(one);
        assert_eq!((moves.offered(two, 7), moves.offered(one, 8)), (None, None));
        for _ in 1..TRIES {
            assert_eq!(moves.offered(one, 7), Some(Next::Fetch));
            assert_eq!(moves.offered(one, 7), Some(Next::Nothing), "it has been said twice");
            assert_eq!(moves.fetched(7, false), Next::Tell(message));
        }
        assert_eq!(moves.offered(one, 7), Some(Next::Fetch));
        assert_eq!(moves.fetched(7, false), Next::Over(MoveId(1), one, false));
        assert!(moves.is_empty());
        assert_eq!(moves.fetched(7, true), Next::Nothing);
    }

    #[test]
    fn memory_into_which_bytes_are_fetched_is_kept_until_that_is_over() {
        let [one, two] = nodes();
        let (mut moves, _) = expecting(one);
        assert_eq!(moves.withdrawn(two, 7), Err(()));
        assert_eq!(moves.withdrawn(one, 7), Ok(Some(MoveId(1))));
        let (mut moves, _) = expecting(one);
        moves.lend(one, 9, MoveId(2), Vec::new());
        assert_eq!(moves.offered(one, 7), Some(Next::Fetch));
        assert_eq!(moves.abandon(one), (vec![MoveId(2)], Vec::new()));
        assert_eq!(moves.fetched(7, false), Next::Over(MoveId(1), one, false));
        let (mut moves, _) = expecting(one);
        assert_eq!(moves.abandon(one), (Vec::new(), vec![MoveId(1)]));
    }
}
