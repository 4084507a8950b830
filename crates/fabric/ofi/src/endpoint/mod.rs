//! A reliable datagram endpoint.
//!
//! - `open`: opens an endpoint; `objects`: its parts, and the time when they are closed;
//! - `frames`: short messages; `moves`: lends memory and fetches from lent memory; `regions`: registration;
//! - `waiting`: operations that the provider had no room for; `queue`: completions.

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

/// `FI_RECV` and `FI_SEND`: uses of a completion queue, and of a registered region.
const RECV: u64 = 1 << 10;
const SEND: u64 = 1 << 11;
/// `-FI_EAGAIN`: the provider has no room at the moment.
const AGAIN: isize = -(libc::EAGAIN as isize);
/// `FI_ADDR_UNSPEC`: any peer.
const ANY: u64 = u64::MAX;

/// An event of an endpoint.
#[derive(Debug)]
pub enum Event {
    /// A frame has arrived. The program must give back its buffer ([`Endpoint::give_back`]).
    Frame(Lent),
    /// The fetch with this name is over: true if the bytes are there, false if it failed. libfabric does not use its
    /// memory any more.
    Fetched(u64, bool),
    /// A frame to this peer failed, with libfabric's error number. The peer has not received the frame.
    Failed(Peer, i32),
}

/// Number of a buffer in an arena.
type Buffer = usize;

/// An endpoint with all objects that belong to it.
pub struct Endpoint {
    /// Taken out when the endpoint is dropped.
    open: ManuallyDrop<Open>,
    library: &'static Library,
    limits: Limits,
    name: String,
    address: Box<[u8]>,
    /// Descriptors of the frame buffers' registrations; null if the provider requires none.
    awaited_desc: *mut c_void,
    outgoing_desc: *mut c_void,
    /// Free buffers for outgoing frames.
    free: Vec<Buffer>,
    /// Buffers that need a posted receive.
    unposted: Vec<Buffer>,
    /// Operations that the provider had no room for, by peer and in order. Receives have no peer.
    waiting: BTreeMap<Option<Peer>, VecDeque<Waiting>>,
    /// Events that the next [`Endpoint::poll`] reports.
    noted: Vec<Event>,
    descriptor: Option<RawFd>,
    /// Key and count from which registration keys are drawn. No peer can guess another peer's keys.
    keys: (RandomState, u64),
}

// SAFETY: the pointers outside `Open`, which is Send, are to operations and registrations that `Open` owns.
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
        // SAFETY: `self.open` is not used after this.
        let open = unsafe { ManuallyDrop::take(&mut self.open) };
        objects::close(&self.name, open);
    }
}

impl Endpoint {
    /// Returns the name by which the provider calls itself. It may be longer than the requested name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the provider's limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns this endpoint's address, for [`Endpoint::peer`] of another endpoint.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// Returns a descriptor that is readable when an event waits, if the provider has one.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Returns the largest length of a frame in bytes.
    pub fn frame_max(&self) -> usize {
        self.open.outgoing.each
    }

    /// Returns the number of moves in progress in both directions, and the number of registered regions. For tests.
    pub fn counts(&self) -> (usize, usize) {
        (self.open.operations.fetching() + self.open.leases.len(), self.open.regions.len())
    }

    fn failed(&self, call: &'static str, errno: c_int) -> Error {
        failed(self.library, &self.name, call, errno)
    }

    /// Returns the peer at an address.
    ///
    /// # Errors
    /// [`Error::Call`] if the provider refuses the address; [`Error::Leaving`].
    pub fn peer(&mut self, address: &[u8]) -> Result<Peer, Error> {
        let _inside = enter().ok_or(Error::Leaving)?;
        // SAFETY: the provider's answer is valid until `choice` is dropped.
        let len = unsafe { (*self.open.choice.info).src_addrlen };
        // A provider reads as many bytes as its own addresses have, even if this address is shorter.
        let mut room = vec![0u8; len.max(address.len()).max(64)];
        room[..address.len()].copy_from_slice(address);
        let mut found = ANY;
        // SAFETY: the address vector is open, and `room` is at least as long as the provider's addresses.
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
