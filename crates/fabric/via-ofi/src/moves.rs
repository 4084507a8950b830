//! Long messages that are on their way between this NIC and others, and what each side says of them.
//!
//! | the receiver | the sender |
//! |---|---|
//! | expects an announced message under a ticket that it draws, and says that it is ready | |
//! | | lends the message's memory, and says by which keys |
//! | fetches the bytes, and then says that the memory is the sender's again | |
//! | | takes it back |
//!
//! What is said may get lost, with the connection below libfabric. Each side that awaits an answer says it again now and then, and each
//! answers what it knows nothing of any more: the sender that nothing is coming, the receiver that it fetches nothing. Fetching is libfabric's,
//! which tells how each has ended; one that has failed begins anew with the first word. So each move ends on both sides, or with the peer.

use crate::nodes::Node;
use sovia_ofi::{Part, Span};
use sovia_softnic::moving::{Expected, MoveId};
use std::collections::BTreeMap;

/// What has failed so often is not fetched again: the memory of one side is none.
const TRIES: u32 = 16;

/// How far an expected message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its sender has been told; whether it was told again is not due yet.
    Told { just_now: bool },
    /// It is being fetched.
    Fetching,
    /// It is being fetched, and its sender has said, or is thought, to be through with it.
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

/// What comes of a message that is expected, as something has happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing new.
    Nothing,
    /// It is to be fetched: what, and from where.
    Fetch,
    /// Its sender is to be told again that memory is ready.
    Tell(Expected<Node>),
    /// The move is over, and so is what is lent for it by that node; whether all bytes are there.
    Over(MoveId, Node, bool),
}

/// What is to be said again to a node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Ready(u64, Expected<Node>),
    Lent(Node, u64, Vec<Part>),
}

/// All moves of a NIC, but those within it.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// By ticket.
    expected: BTreeMap<u64, Place>,
    /// By receiver, and by its ticket.
    lent: BTreeMap<(Node, u64), Lent>,
}

impl Moves {
    pub(crate) fn is_empty(&self) -> bool {
        self.expected.is_empty() && self.lent.is_empty()
    }

    /// Whether a message is expected under that ticket.
    pub(crate) fn has(&self, ticket: u64) -> bool {
        self.expected.contains_key(&ticket)
    }

    /// A message is expected, of which its sender is told now.
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

    /// Memory is lent, of which its receiver is told now.
    pub(crate) fn lend(&mut self, to: Node, ticket: u64, id: MoveId, parts: Vec<Part>) {
        self.lent.insert((to, ticket), Lent { id, parts, just_now: true });
    }

    /// What is lent to a node for that ticket.
    pub(crate) fn lent(&self, to: Node, ticket: u64) -> Option<&[Part]> {
        self.lent.get(&(to, ticket)).map(|lent| &lent.parts[..])
    }

    /// The receiver fetches nothing any more: the move that is over.
    pub(crate) fn returned(&mut self, from: Node, ticket: u64) -> Option<MoveId> {
        self.lent.remove(&(from, ticket)).map(|lent| lent.id)
    }

    /// A node has lent what is expected under a ticket; `None` where nothing of that node's is.
    pub(crate) fn offered(&mut self, from: Node, ticket: u64) -> Option<Next> {
        let place = self.expected.get_mut(&ticket).filter(|it| it.message.from == from)?;
        if !matches!(place.stage, Stage::Told { .. }) {
            return Some(Next::Nothing);
        }
        place.stage = Stage::Fetching;
        Some(Next::Fetch)
    }

    /// Where the message expected under a ticket belongs.
    pub(crate) fn place(&self, ticket: u64) -> &[Span] {
        self.expected.get(&ticket).map_or(&[], |place| &place.into)
    }

    /// Fetching has ended.
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

    /// A node does not send what is expected under a ticket: the move that is over, if none of its bytes are being fetched. False of what
    /// that node was not to send.
    pub(crate) fn withdrawn(&mut self, from: Node, ticket: u64) -> Result<Option<MoveId>, ()> {
        let place = self.expected.get_mut(&ticket).filter(|it| it.message.from == from);
        let place = place.ok_or(())?;
        if !matches!(place.stage, Stage::Told { .. }) {
            place.stage = Stage::Doomed;
            return Ok(None);
        }
        Ok(self.expected.remove(&ticket).map(|place| place.id))
    }

    /// A node is thought to be gone: the moves that are over, those to there first, which have memory to be taken back.
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

    /// What has to be said again, because no answer has come since this was asked last.
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
