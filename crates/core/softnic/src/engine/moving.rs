//! Messages whose bytes the medium moves; see `crate::moving`.

use crate::access::Access;
use crate::card::Card;
use crate::ids::ViId;
use crate::medium::Medium;
use crate::moving::{Expected, MoveId, Span};
use crate::source::Source;
use crate::world::{Announced, Arrived, Bytes, Coming, Lending, Move, Way, World};
use smallvec::SmallVec;
use sovia_link::wire::{EndId, Item, Operation, Part};
use std::sync::Arc;
use via::descriptor::Segments;
use via::{DataSegment, MemHandle, Memory, Status};

/// Largest number of messages that one connection moves at once.
const AHEAD: usize = 16;

/// Result of an announcement.
enum Begun {
    /// The medium moves the bytes.
    Moving,
    /// The decision must wait until the messages before it are in place.
    Later,
    /// The bytes cannot be placed.
    Refused(Status),
}

impl Access<'_> {
    /// Returns the parts of memory that segments refer to.
    fn spans(&self, data: &[DataSegment], key: impl Fn(u32) -> Option<u64>) -> Option<Vec<Span>> {
        let used = data.iter().filter(|segment| segment.length > 0);
        let span = |segment: &DataSegment| {
            let mut found = None;
            let use_it = |memory: &Memory, at| {
                let (memory, key) = (memory.clone(), key(segment.handle));
                found = Some(Span { memory, at, len: segment.length, key });
            };
            self.segment(segment, use_it).ok().and(found)
        };
        used.map(span).collect()
    }
}

fn regions(data: &[DataSegment]) -> SmallVec<[u32; 4]> {
    data.iter().map(|segment| segment.handle).collect()
}

/// Returns a span of all of `memory`.
fn whole(memory: &Memory, len: u32) -> Vec<Span> {
    vec![Span { memory: memory.clone(), at: 0, len, key: None }]
}

/// Copies the bytes of segments.
fn copied(access: &Access<'_>, data: &[DataSegment]) -> Option<Memory> {
    let mut bytes = vec![0; data.iter().map(|segment| segment.length as usize).sum()];
    access.gather(data, &mut bytes).ok()?;
    let memory = Memory::zeroed(bytes.len());
    memory.write(0, &bytes);
    Some(memory)
}

impl Lending {
    /// Copies the bytes, if part of them lies in `region`, or in any case if `region` is `None`.
    pub(crate) fn keep(&mut self, access: &Access<'_>, region: Option<MemHandle>) {
        let Lending::Segments(data) = self else { return };
        if region.is_none_or(|region| data.iter().any(|it| it.handle == region.raw()))
            && let Some(copy) = copied(access, data)
        {
            *self = Lending::Copied(copy);
        }
    }
}

impl<M: Medium> World<M> {
    /// Returns true if the medium moves messages of this length to the peer.
    pub(crate) fn moves(&self, conn: EndId, length: u32) -> bool {
        let node = self.conns.get(&conn).map(|conn| conn.peer_node);
        node.and_then(|node| self.net.moves_from(node)).is_some_and(|least| length >= least.max(1))
    }

    /// Announces a message. Returns the number of its item.
    pub(crate) fn announce(
        &mut self,
        conn: EndId,
        operation: Operation,
        immediate: Option<u32>,
        data: Segments,
    ) -> Option<u64> {
        let conn = self.conns.get_mut(&conn)?;
        let total = data.iter().fold(0, |sum: u32, segment| sum.saturating_add(segment.length));
        let bytes = Source::Copied(Vec::new().into());
        let part = Part { operation, immediate, total, start: 0, bytes };
        let number = conn.stream.push(Item::Part(part));
        conn.announced.push_back(Announced { number, source: Lending::Segments(data) });
        Some(number)
    }

    /// Starts to send an announced message. The peer's memory is ready, and the peer's medium calls the message
    /// `ticket`.
    pub fn ready(&mut self, from: M::Node, (own, peer): (EndId, EndId), number: u64, ticket: u64) {
        if self.dispatch(from, (own, peer), number, ticket).is_none() {
            self.counters.strangers += 1;
            self.net.withdraw(from, ticket);
        }
    }

    fn dispatch(
        &mut self,
        from: M::Node,
        (own, peer): (EndId, EndId),
        number: u64,
        ticket: u64,
    ) -> Option<()> {
        let conn = self.conns.get_mut(&own).filter(|it| it.peer_node == from && it.peer == peer)?;
        let at = conn.announced.iter().position(|it| it.number == number)?;
        let source = conn.announced.remove(at)?.source;
        let (vi, nic) = conn.of.clone();
        let spans_max = self.net.spans_max();
        let (spans, regions) = match source {
            Lending::Copied(memory) => (whole(&memory, memory.len() as u32), SmallVec::new()),
            Lending::Segments(data) => {
                let access = self.vis.get(&vi)?.access();
                let spans = access.spans(&data, |handle| nic.key(handle))?;
                if spans.len() <= spans_max {
                    (spans, regions(&data))
                } else {
                    let copy = copied(&access, &data)?;
                    (whole(&copy, copy.len() as u32), SmallVec::new())
                }
            }
        };
        let id = MoveId(self.fresh());
        let it = Move { nic, vi, conn: own, number, way: Way::Out, regions };
        self.moving.insert(id, it);
        self.net.dispatch(id, from, ticket, spans);
        Some(())
    }

    /// Processes an announcement, which is the next item: has the medium move its bytes into place. Returns false if no
    /// later item can be processed yet.
    pub(crate) fn announced(&mut self, vi: ViId, id: EndId, part: &Part<()>) -> bool {
        let begun = self.begin_move(vi, id, part);
        let Some(conn) = self.conns.get_mut(&id) else { return false };
        let status = match begun {
            Begun::Later => return false,
            Begun::Moving => None,
            Begun::Refused(status) => Some(status),
        };
        let Some((number, _)) = conn.stream.take() else { return false };
        let Some(status) = status else { return true };
        let Part { operation, immediate, total, .. } = *part;
        let bytes = Bytes::Refused(status);
        self.message(vi, id, number, Arrived { operation, immediate, length: total, bytes });
        true
    }

    fn begin_move(&mut self, vi: ViId, id: EndId, part: &Part<()>) -> Begun {
        let (Some(of), Some(conn)) = (self.vis.get(&vi), self.conns.get_mut(&id)) else {
            return Begun::Later;
        };
        let is_first = conn.coming.is_empty();
        if conn.coming.len() >= AHEAD {
            return Begun::Later;
        }
        let ahead = conn.coming.iter().filter(|it| it.takes_receive()).count() as u32;
        let access = of.access();
        let found = of.whereto(part.operation, part.total, ahead).and_then(|data| {
            let spans = access.spans(&data, |handle| of.nic.key(handle));
            Ok((spans.ok_or(Status::PROTECTION_ERROR)?, data))
        });
        let (spans, data) = match found {
            Ok(found) => found,
            Err(status) if is_first => return Begun::Refused(status),
            Err(_) => return Begun::Later,
        };
        let (node, peer, number) = (conn.peer_node, conn.peer, conn.stream.next_in());
        let Part { operation, immediate, total, .. } = *part;
        conn.coming.push_back(Coming { number, operation, immediate, total, placed: None });
        if is_first {
            conn.stream.hold(Some(number));
        }
        let (spans, way, regions) = if spans.len() <= self.net.spans_max() {
            (spans, Way::In, regions(&data))
        } else {
            let memory = Memory::zeroed(total as usize);
            (whole(&memory, total), Way::By(memory, data), SmallVec::new())
        };
        let nic = of.nic.clone();
        let it = Move { nic, vi, conn: id, number, way, regions };
        let name = MoveId(self.fresh());
        self.moving.insert(name, it);
        let expected = Expected { from: node, ends: [peer, id], number };
        self.net.expect(name, &expected, spans);
        Begun::Moving
    }

    /// Ends a move. `is_done` says whether all bytes are in place.
    pub fn moved(&mut self, id: MoveId, is_done: bool) {
        let Some(it) = self.moving.remove(&id) else { return };
        // A thread may be waiting to free the memory.
        self.news = true;
        let is_open = self.conns.get(&it.conn).is_some_and(|conn| conn.vi == Some(it.vi));
        if !is_open {
            return;
        }
        if !is_done {
            return self.hopeless(it.conn);
        }
        match it.way {
            Way::Out => self.moved_out(it.vi, it.number),
            Way::In => self.placed(it.conn, it.number, Ok(())),
            Way::By(memory, data) => {
                let mut bytes = vec![0; memory.len()];
                memory.read(0, &mut bytes);
                let access = self.vis.get(&it.vi).map(|vi| vi.access());
                let placed = access.map_or(Ok(()), |access| access.scatter(&data, &bytes));
                self.placed(it.conn, it.number, placed);
            }
        }
    }

    fn moved_out(&mut self, id: ViId, number: u64) {
        let Some(vi) = self.vis.get_mut(&id) else { return };
        if let Some(started) = vi.started.iter_mut().find(|it| it.last == number) {
            started.moving = false;
        }
        self.push_sends(id);
    }

    /// Records that a message's bytes are in place, or cannot be. Delivers all messages at the front that are in place.
    fn placed(&mut self, id: EndId, number: u64, placed: Result<(), Status>) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(coming) = conn.coming.iter_mut().find(|it| it.number == number) {
            coming.placed = Some(placed);
        }
        while let Some(conn) = self.conns.get_mut(&id)
            && let Some(vi) = conn.vi
            && let Some(Coming { placed: Some(placed), .. }) = conn.coming.front()
        {
            let bytes = placed.map_or_else(Bytes::Refused, |()| Bytes::Placed);
            let Some(Coming { number, operation, immediate, total, .. }) = conn.coming.pop_front()
            else {
                return;
            };
            conn.owed += 1;
            let next = conn.coming.front().map(|it| it.number);
            conn.stream.hold(next);
            self.message(vi, id, number, Arrived { operation, immediate, length: total, bytes });
        }
        self.take_items(id);
        // The acknowledgement lets the sender's program use its memory again.
        self.pay(id);
        self.transmit(id);
    }

    /// Returns true if bytes are being moved from or to a region.
    pub(crate) fn moves_region(&self, nic: &Arc<Card<M::Node>>, handle: MemHandle) -> bool {
        self.moving.values().any(|it| it.uses(nic, handle))
    }

    /// Returns true if bytes are being moved for a VI.
    pub(crate) fn moves_for(&self, vi: ViId) -> bool {
        self.moving.values().any(|it| it.vi == vi && !it.regions.is_empty())
    }
}
