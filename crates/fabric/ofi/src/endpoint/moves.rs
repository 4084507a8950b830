//! Moves: messages of any length with an exact tag, from memory of the program's to such memory.

use super::waiting::Waiting;
use super::{AGAIN, ANY, Endpoint, Event};
use crate::operation::{Kind, Operation, Peer};
use core::ptr::{NonNull, null_mut};
use sovia_fi_types::Piece;
use via::Memory;

/// A part of memory from which or to which bytes are moved.
#[derive(Debug, Clone)]
pub struct Span {
    /// The memory. It stays valid until the move is over ([`Event::Moved`]), as [`Memory::from_raw`] asks.
    pub memory: Memory,
    /// Offset of the part in it.
    pub at: usize,
    /// Bytes of the part.
    pub len: u32,
    /// The registration, if there is one.
    pub key: Option<u64>,
}

impl Endpoint {
    /// Sends bytes of memory to a peer under that tag. [`Event::Moved`] says when the memory is not used any more.
    pub fn move_out(&mut self, name: u64, to: Peer, tag: u64, from: Vec<Span>) {
        self.begin_move(Kind::Out(name, to), tag, from);
    }

    /// Receives the message with that tag into memory. [`Event::Moved`] says when its bytes are there.
    pub fn move_in(&mut self, name: u64, tag: u64, into: Vec<Span>) {
        self.begin_move(Kind::In(name), tag, into);
    }

    fn begin_move(&mut self, kind: Kind, tag: u64, spans: Vec<Span>) {
        let (name, to) = match kind {
            Kind::In(name) => (name, None),
            Kind::Out(name, to) => (name, Some(to)),
            _ => return,
        };
        let piece = |span: &Span| {
            let start = span.memory.range(span.memory.address(span.at), span.len)?;
            Some(Piece { address: start.as_ptr().expose_provenance(), len: span.len as usize })
        };
        let pieces: Option<Vec<Piece>> = spans.iter().map(piece).collect();
        let pieces = pieces.filter(|pieces| pieces.len() <= self.limits.parts);
        let operation = self.open.operations.begin(kind);
        let Some(pieces) = pieces else {
            // SAFETY: libfabric has not seen it.
            unsafe { self.open.operations.end(operation) };
            return self.noted.push(Event::Moved(name, false));
        };
        let mut registered = None;
        if self.limits.registers
            && let [Span { key: None, .. }] = &spans[..]
        {
            // Memory of the engine's own, which is registered for this move alone.
            let start = core::ptr::with_exposed_provenance_mut(pieces[0].address);
            registered = self.registered(start, pieces[0].len).ok();
        }
        let own = registered.as_ref().map_or(null_mut(), |(_, desc)| *desc);
        // SAFETY: the region is open while it is in the table.
        let find = |key: &u64| self.open.regions.get(key).map(|it| unsafe { (*it.raw()).mem_desc });
        let desc = |span: &Span| span.key.as_ref().and_then(find).unwrap_or(own);
        let descs: Vec<_> = spans.iter().map(desc).collect();
        // SAFETY: libfabric has not seen it.
        let it = unsafe { &mut *operation.as_ptr() };
        (it.pieces, it.descs, it.tag) = (pieces, descs, tag);
        it.registered = registered.map(|(region, _)| region);
        it.memory.extend(spans.into_iter().map(|span| span.memory));
        if self.waiting.contains_key(&to) || !self.try_move(operation) {
            self.wait(to, Waiting::Move(operation));
        }
    }

    /// Hands a move to the provider; false if the provider has no room.
    pub(super) fn try_move(&mut self, operation: NonNull<Operation>) -> bool {
        let context = operation.as_ptr().cast();
        // SAFETY: the endpoint is open and its tables are complete; libfabric has not seen the operation, which keeps the memory until
        // it is over.
        let result = unsafe {
            let it = &mut *operation.as_ptr();
            let (ep, ops, tag) = (self.open.ep.raw(), (*self.open.ep.raw()).tagged, it.tag);
            let (pieces, descs, count) =
                (it.pieces.as_ptr(), it.descs.as_mut_ptr(), it.pieces.len());
            match it.kind {
                Kind::Out(_, to) => ((*ops).sendv)(ep, pieces, descs, count, to.0, tag, context),
                _ => ((*ops).recvv)(ep, pieces, descs, count, ANY, tag, 0, context),
            }
        };
        if result == AGAIN {
            return false;
        }
        if result != 0 {
            // SAFETY: libfabric has not taken it.
            let kind = unsafe { self.open.operations.end(operation) };
            self.note_end(&kind, Some(result as i32));
        }
        true
    }

    /// Notes the events of a move that is over.
    pub(super) fn note_end(&mut self, kind: &Kind, errno: Option<i32>) {
        match *kind {
            Kind::Out(name, to) => {
                self.noted.push(Event::Moved(name, errno.is_none()));
                if let Some(errno) = errno {
                    self.noted.push(Event::Failed(to, errno));
                }
            }
            Kind::In(name) => self.noted.push(Event::Moved(name, errno.is_none())),
            Kind::Free | Kind::Receive(_) | Kind::Send(..) => {}
        }
    }

    /// Ends a move before its bytes have been moved. [`Event::Moved`] follows: false, or true if they were moved first.
    pub fn cancel(&mut self, name: u64) {
        let Some(operation) = self.open.operations.find(name) else { return };
        let waits = |it: &Waiting| matches!(it, Waiting::Move(one) if *one == operation);
        let found = self.waiting.values_mut().find_map(|all| {
            let at = all.iter().position(waits)?;
            all.remove(at)
        });
        if found.is_some() {
            self.waiting.retain(|_, all| !all.is_empty());
            // SAFETY: libfabric has not seen it.
            unsafe { self.open.operations.end(operation) };
            return self.noted.push(Event::Moved(name, false));
        }
        // SAFETY: the endpoint is open, and the operation under way.
        unsafe {
            let cancel = (*(*self.open.ep.raw()).ops).cancel;
            cancel(self.open.ep.fid(), operation.as_ptr().cast());
        }
    }
}
