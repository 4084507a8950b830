//! Operations that are under way. libfabric has a pointer to each, and uses the beginning of it as scratch room.

use crate::object::Object;
use core::ffi::c_void;
use core::ptr::NonNull;
use sovia_fi_types::{FidMr, Piece, RmaIov};
use via::Memory;

/// Another endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub(crate) u64);

/// What an operation is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// None: it is free.
    Free,
    /// A frame is awaited in that buffer.
    Receive(usize),
    /// A frame is sent from that buffer.
    Send(usize, Peer),
    /// Bytes of a peer's memory are fetched.
    Fetch(u64, Peer),
}

/// An operation. `struct fi_context2` comes first, as providers may ask.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Operation {
    scratch: [*mut c_void; 8],
    pub(crate) kind: Kind,
    /// Memory that a move uses, kept until it is over.
    pub(crate) memory: Vec<Memory>,
    /// The parts of memory, with the descriptors of their registrations, and those of the peer's memory, of a move.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) descs: Vec<*mut c_void>,
    pub(crate) remote: Vec<RmaIov>,
    pub(crate) registered: Option<Object<FidMr>>,
}

/// All operations of an endpoint: those under way, and free ones.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    all: Vec<NonNull<Operation>>,
    free: Vec<NonNull<Operation>>,
}

// SAFETY: the operations are used only by the thread that uses the endpoint.
unsafe impl Send for Operations {}

impl Operations {
    /// An operation of that kind, from the free ones or new.
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
        // SAFETY: it is not under way, so that nothing else uses it.
        unsafe { (*operation.as_ptr()).kind = kind };
        operation
    }

    /// Frees an operation that is over, or that libfabric has not taken; its kind.
    ///
    /// # Safety
    /// It came from [`Operations::begin`], and libfabric does not use it any more.
    pub(crate) unsafe fn end(&mut self, operation: NonNull<Operation>) -> Kind {
        self.free.push(operation);
        // SAFETY: it is one of `all`, and libfabric does not use it, as the caller promises.
        let it = unsafe { &mut *operation.as_ptr() };
        it.memory.clear();
        it.pieces.clear();
        it.descs.clear();
        it.remote.clear();
        it.registered = None;
        core::mem::replace(&mut it.kind, Kind::Free)
    }

    /// Those that fetch bytes.
    pub(crate) fn fetching(&self) -> usize {
        // SAFETY: libfabric uses the scratch room only.
        let moves =
            |it: &&NonNull<Operation>| unsafe { matches!((*it.as_ptr()).kind, Kind::Fetch(..)) };
        self.all.iter().filter(moves).count()
    }
}

impl Drop for Operations {
    /// The endpoint is closed by now.
    fn drop(&mut self) {
        for operation in self.all.drain(..) {
            // SAFETY: it was leaked by `begin`, and nothing uses it any more.
            drop(unsafe { Box::from_raw(operation.as_ptr()) });
        }
    }
}
