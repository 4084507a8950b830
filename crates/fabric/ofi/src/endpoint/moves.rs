//! Moves: an endpoint lends memory, and another endpoint fetches its bytes into memory of its own.
//!
//! The fetching endpoint starts the operation, and libfabric reports its end, even after the connection below is lost.
//! So the memory of the fetching side is free when the operation is over. The memory of the lending side is free when
//! the fetching side says so.

use super::regions::{LENT, LOCAL};
use super::waiting::Waiting;
use super::{AGAIN, Endpoint, Event};
use crate::error::Error;
use crate::leaving::enter;
use crate::operation::{Kind, Operation, Peer};
use core::ptr::{NonNull, null_mut};
use sovia_fi_types::{MsgRma, Piece, RmaIov};
use via::Memory;

/// A part of memory that a move reads or writes.
#[derive(Debug, Clone)]
pub struct Span {
    /// The memory. It stays valid until the move is over ([`Event::Fetched`], [`Endpoint::take_back`]), as
    /// [`Memory::from_raw`] requires.
    pub memory: Memory,
    /// Offset of the part in the memory.
    pub at: usize,
    /// Length of the part in bytes.
    pub len: u32,
    /// Key of the memory's registration, if there is one.
    pub key: Option<u64>,
}

/// A part of lent memory, in the form that the fetching endpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Address or offset of the first byte.
    pub address: u64,
    /// Length of the part in bytes.
    pub len: u64,
    /// Key of the registration.
    pub key: u64,
}

impl Span {
    fn piece(&self) -> Option<Piece> {
        let start = self.memory.range(self.memory.address(self.at), self.len)?;
        Some(Piece { address: start.as_ptr().expose_provenance(), len: self.len as usize })
    }
}

impl Endpoint {
    /// Lends memory under a name. Every endpoint that has the keys may read it, until [`Endpoint::take_back`].
    ///
    /// # Errors
    /// [`Error::Call`], usually because of a system limit; [`Error::Leaving`].
    pub fn lend(&mut self, name: u64, spans: &[Span]) -> Result<Vec<Part>, Error> {
        let _inside = enter().ok_or(Error::Leaving)?;
        let mut regions = Vec::with_capacity(spans.len());
        let mut parts = Vec::with_capacity(spans.len());
        for span in spans {
            let Some(Piece { address, len }) = span.piece() else {
                return Err(self.failed("fi_mr_reg", libc::EFAULT));
            };
            let start = core::ptr::with_exposed_provenance_mut(address);
            let (region, _) = self.registered(start, len, LENT)?;
            // SAFETY: the region was just registered and is open.
            let key = unsafe { (*region.raw()).key };
            let address = if self.limits.by_address { address as u64 } else { 0 };
            parts.push(Part { address, len: len as u64, key });
            regions.push(region);
        }
        let memory = spans.iter().map(|span| span.memory.clone()).collect();
        self.open.leases.insert(name, (regions, memory));
        Ok(parts)
    }

    /// Takes back the memory lent under a name. No endpoint may still be fetching it.
    pub fn take_back(&mut self, name: u64) {
        if let Some(_inside) = enter() {
            self.open.leases.remove(&name);
        }
    }

    /// Begins to fetch what a peer has lent, into memory of the same total length. [`Event::Fetched`] reports the end.
    pub fn fetch(&mut self, name: u64, from: Peer, parts: &[Part], into: &[Span]) {
        let Some(_inside) = enter() else { return };
        let pieces: Option<Vec<Piece>> = into.iter().map(Span::piece).collect();
        let bytes = |pieces: &[Piece]| pieces.iter().map(|it| it.len as u64).sum();
        let wanted = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.len));
        let fits = |pieces: &Vec<Piece>| {
            let max = pieces.len().max(parts.len());
            max <= self.limits.parts && !parts.is_empty() && wanted == Some(bytes(pieces))
        };
        let Some(pieces) = pieces.filter(fits) else {
            return self.noted.push(Event::Fetched(name, false));
        };
        let mut registered = None;
        if self.limits.registers
            && let [Span { key: None, .. }] = into
        {
            // This memory belongs to the engine, and is registered only for this move.
            let start = core::ptr::with_exposed_provenance_mut(pieces[0].address);
            registered = self.registered(start, pieces[0].len, LOCAL).ok();
        }
        // A provider that requires no registrations accepts memory with a null descriptor.
        let own = match &registered {
            Some((_, desc)) => Some(*desc),
            None => (!self.limits.registers).then_some(null_mut()),
        };
        // SAFETY: a region in the table is open.
        let find = |key: &u64| self.open.regions.get(key).map(|it| unsafe { (*it.raw()).mem_desc });
        let desc = |span: &Span| span.key.as_ref().and_then(find).or(own);
        let Some(descs) = into.iter().map(desc).collect::<Option<Vec<_>>>() else {
            return self.noted.push(Event::Fetched(name, false));
        };
        let operation = self.open.operations.begin(Kind::Fetch(name, from));
        // SAFETY: `begin` returned the operation, and libfabric does not have it yet.
        let it = unsafe { &mut *operation.as_ptr() };
        (it.pieces, it.descs) = (pieces, descs);
        let remote = |it: &Part| RmaIov { addr: it.address, len: it.len as usize, key: it.key };
        it.remote.extend(parts.iter().map(remote));
        it.registered = registered.map(|(region, _)| region);
        it.memory.extend(into.iter().map(|span| span.memory.clone()));
        if self.waiting.contains_key(&Some(from)) || !self.try_move(operation) {
            self.wait(Some(from), Waiting::Move(operation));
        }
    }

    /// Passes a move to the provider. Returns false if the provider has no room.
    pub(super) fn try_move(&mut self, operation: NonNull<Operation>) -> bool {
        // SAFETY: libfabric does not have the operation yet, so no other reference to it exists.
        let it = unsafe { &mut *operation.as_ptr() };
        let Kind::Fetch(_, from) = it.kind else { return true };
        let message = MsgRma {
            msg_iov: it.pieces.as_ptr(),
            desc: it.descs.as_mut_ptr(),
            iov_count: it.pieces.len(),
            addr: from.0,
            rma_iov: it.remote.as_ptr(),
            rma_iov_count: it.remote.len(),
            context: operation.as_ptr().cast(),
            data: 0,
        };
        // SAFETY: the endpoint is open and its function tables are complete. The operation keeps the memory until it is
        // over.
        let result = unsafe {
            let ep = self.open.ep.raw();
            ((*(*ep).rma).readmsg)(ep, &raw const message, 0)
        };
        if result == AGAIN {
            return false;
        }
        if result != 0 {
            // SAFETY: `begin` returned the operation, and libfabric has refused it.
            let kind = unsafe { self.open.operations.end(operation) };
            self.note_end(&kind, false);
        }
        true
    }

    /// Queues the event of a move that is over.
    pub(super) fn note_end(&mut self, kind: &Kind, is_done: bool) {
        match *kind {
            Kind::Fetch(name, _) => self.noted.push(Event::Fetched(name, is_done)),
            Kind::Free | Kind::Receive(_) | Kind::Send(..) => {}
        }
    }
}
