//! Operations in progress. libfabric has a pointer to each operation, and uses its first bytes as scratch memory.

use crate::object::Object;
use core::ffi::c_void;
use core::ptr::NonNull;
use sovia_fi_types::{FidMr, Piece, RmaIov};
use via::Memory;

/// Another endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) u64);

/// Kind of an operation.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Free for reuse.
    Free,
    /// A receive of a frame into this buffer.
    Receive(usize),
    /// A send of a frame from this buffer to this peer.
    Send(usize, Peer),
    /// A fetch with this name from a peer's memory.
    Fetch(u64, Peer),
}

/// An operation. `struct fi_context2` comes first, because providers may require it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Operation {
    scratch: [*mut c_void; 8],
    pub(crate) kind: Kind,
    /// Memory that a move uses, kept until the move is over.
    pub(crate) memory: Vec<Memory>,
    /// For a move: the local parts with the descriptors of their registrations, and the peer's parts.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) descs: Vec<*mut c_void>,
    pub(crate) remote: Vec<RmaIov>,
    pub(crate) registered: Option<Object<FidMr>>,
}

/// All operations of an endpoint, in progress or free.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    all: Vec<NonNull<Operation>>,
    free: Vec<NonNull<Operation>>,
}

// SAFETY: the pointers are to allocations that this value owns. Only the thread that uses the endpoint uses them.
unsafe impl Send for Operations {}

impl Operations {
    /// Returns an operation of this kind, a free one or a new one.
    pub(crate) fn begin(&mut self, kind: Kind) -> NonNull<Operation> {
        let operation = self.free.pop().unwrap_or_else(|| {
            let scratch = [core::ptr::null_mut(); 8];
            let new = Box::new(Operation {
                scratch,
                kind: Kind::Free,
                memory: Vec::new(),
                pieces: Vec::new(),
                descs: Vec::new(),
                remote: Vec::new(),
                registered: None,
            });
            let new = NonNull::from(Box::leak(new));
            self.all.push(new);
            new
        });
        // SAFETY: the operation is free or new, so libfabric does not use it.
        unsafe { (*operation.as_ptr()).kind = kind };
        operation
    }

    /// Frees an operation that is over or that libfabric has refused. Returns its kind.
    ///
    /// # Safety
    /// [`Operations::begin`] must have returned the operation, and libfabric must not use it any more.
    pub(crate) unsafe fn end(&mut self, operation: NonNull<Operation>) -> Kind {
        self.free.push(operation);
        // SAFETY: the caller promises that the operation is one of `all`, and that libfabric does not use it.
        let it = unsafe { &mut *operation.as_ptr() };
        it.memory.clear();
        it.pieces.clear();
        it.descs.clear();
        it.remote.clear();
        it.registered = None;
        core::mem::replace(&mut it.kind, Kind::Free)
    }

    /// Returns the number of fetches in progress.
    pub(crate) fn fetching(&self) -> usize {
        // SAFETY: each operation in `all` is allocated. libfabric writes only to its scratch memory, not to `kind`.
        let moves =
            |it: &&NonNull<Operation>| unsafe { matches!((*it.as_ptr()).kind, Kind::Fetch(..)) };
        self.all.iter().filter(moves).count()
    }
}

impl Drop for Operations {
    /// Frees all operations. The endpoint is closed already.
    fn drop(&mut self) {
        for operation in self.all.drain(..) {
            // SAFETY: `begin` leaked this box, and the endpoint is closed, so libfabric does not use the operation.
            drop(unsafe { Box::from_raw(operation.as_ptr()) });
        }
    }
}
