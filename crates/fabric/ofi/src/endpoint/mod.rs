//! A reliable datagram endpoint.
//!
//! - `open`: how it is opened; `objects`: what it consists of, and when that is closed;
//! - `frames`: short messages; `moves`: memory that others may read, and fetching from theirs; `regions`: registration;
//! - `waiting`: what the provider has no room for; `queue`: completions.

mod frames;
mod moves;
mod objects;
mod open;
mod queue;
mod regions;
mod waiting;

pub use moves::{Part, Span};

use crate::arena::Lent;
use crate::choice::Limits;
use crate::error::Error;
use crate::leaving::enter;
use crate::library::Library;
use crate::operation::Peer;
use core::ffi::{c_int, c_void};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::null_mut;
use objects::Open;
use sovia_sys::call::RawFd;
use std::collections::{BTreeMap, VecDeque};
use std::hash::RandomState;
use waiting::Waiting;

/// `FI_RECV` and `FI_SEND`: what a completion queue is bound for, and a region registered for.
const RECV: u64 = 1 << 10;
const SEND: u64 = 1 << 11;
/// `-FI_EAGAIN`: the provider has no room now.
const AGAIN: isize = -(libc::EAGAIN as isize);
/// `FI_ADDR_UNSPEC`: any peer.
const ANY: u64 = u64::MAX;

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// A frame has arrived. Its buffer is to be given back ([`Endpoint::give_back`]).
    Frame(Lent),
    /// What was fetched under that name is there, or cannot be had (false); memory is not used any more.
    Fetched(u64, bool),
    /// A frame could not be sent to a peer, which has not received it; libfabric's number of the error.
    Failed(Peer, i32),
}

/// The number of a buffer of an arena.
type Buffer = usize;

/// An endpoint with all that belongs to it.
pub struct Endpoint {
    /// Taken out when the endpoint is dropped.
    open: ManuallyDrop<Open>,
    library: &'static Library,
    limits: Limits,
    name: String,
    address: Box<[u8]>,
    /// The descriptors of the registrations of the buffers for frames; null where the provider asks for none.
    awaited_desc: *mut c_void,
    outgoing_desc: *mut c_void,
    /// Buffers for outgoing frames that are free.
    free: Vec<Buffer>,
    /// Buffers in which no receive is posted, though one should be.
    unposted: Vec<Buffer>,
    /// Frames and moves that the provider had no room for, by peer and in their order; receives have no peer.
    waiting: BTreeMap<Option<Peer>, VecDeque<Waiting>>,
    /// Events that the next [`Endpoint::poll`] reports.
    noted: Vec<Event>,
    descriptor: Option<RawFd>,
    /// From what keys are drawn: no peer can guess those of another one.
    keys: (RandomState, u64),
}

// SAFETY: as for `Open`.
unsafe impl Send for Endpoint {}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { name, address, limits, .. } = self;
        let shown =
            f.debug_struct("Endpoint").field("name", name).field("address", address).finish();
        shown.and_then(|()| write!(f, " {limits:?}"))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        let open = unsafe { ManuallyDrop::take(&mut self.open) };
        objects::close(&self.name, open);
    }
}

impl Endpoint {
    /// The provider's own name, which may say more than the one that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the provider allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Its address, which [`Endpoint::peer`] of another endpoint takes.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// The descriptor that becomes readable when an event is there, of a provider that has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Bytes of the longest frame.
    pub fn frame_max(&self) -> usize {
        self.open.outgoing.each
    }

    /// Moves that are under way, from here and to here, and regions that are registered: for tests, which count them.
    pub fn counts(&self) -> (usize, usize) {
        (self.open.operations.fetching() + self.open.leases.len(), self.open.regions.len())
    }

    fn failed(&self, call: &'static str, errno: c_int) -> Error {
        failed(self.library, &self.name, call, errno)
    }

    /// The peer at that address.
    ///
    /// # Errors
    /// [`Error::Call`] where the provider cannot have such an address; [`Error::Leaving`].
    pub fn peer(&mut self, address: &[u8]) -> Result<Peer, Error> {
        let _inside = enter().ok_or(Error::Leaving)?;
        // SAFETY: the object is open.
        let len = unsafe { (*self.open.choice.info).src_addrlen };
        // A provider reads as many bytes as its addresses have, whatever length this one has.
        let mut room = vec![0u8; len.max(address.len()).max(64)];
        room[..address.len()].copy_from_slice(address);
        let mut found = ANY;
        // SAFETY: the address vector is open, and the room as long as the provider's addresses.
        let inserted = unsafe {
            let insert = (*(*self.open.av.raw()).ops).insert;
            insert(self.open.av.raw(), room.as_ptr().cast(), 1, &raw mut found, 0, null_mut())
        };
        if inserted == 1 { Ok(Peer(found)) } else { Err(self.failed("fi_av_insert", inserted)) }
    }
}

fn failed(library: &Library, provider: &str, call: &'static str, errno: c_int) -> Error {
    let why = library.explain(errno);
    Error::Call { provider: provider.to_owned(), call, errno: errno.abs(), why }
}
