//! The parts of an endpoint, and the time when they are closed.

use crate::arena::Arena;
use crate::choice::Choice;
use crate::leaving::{File, enter};
use crate::object::Object;
use crate::operation::Operations;
use sovia_fi_types::{FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use via::Memory;

/// Registrations of memory that a peer may read, with the memory.
pub(super) type Lease = (Vec<Object<FidMr>>, Vec<Memory>);

/// The parts of an endpoint. Fields are dropped in this order: each object before the objects that it was made from.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) ep: Object<FidEp>,
    pub(super) operations: Operations,
    pub(super) regions: HashMap<u64, Object<FidMr>>,
    /// Memory that peers may read, by the names of the moves.
    pub(super) leases: HashMap<u64, Lease>,
    pub(super) _arena_regions: Vec<Object<FidMr>>,
    pub(super) cq: Object<FidCq>,
    pub(super) av: Object<FidAv>,
    pub(super) domain: Object<FidDomain>,
    pub(super) fabric: Object<FidFabric>,
    pub(super) choice: Choice,
    /// Buffers for received frames.
    pub(super) awaited: Arc<Arena>,
    /// Buffers for outgoing frames.
    pub(super) outgoing: Arc<Arena>,
    pub(super) _file: Option<File>,
}

// SAFETY: all of libfabric's objects belong to one domain, which is opened for use by one thread at a time
// (`FI_THREAD_DOMAIN`). The pointers are to memory that the endpoint owns or keeps.
unsafe impl Send for Open {}

/// Number of this process's endpoints of [`KEPT_PROVIDER`], and the dropped endpoints that are not closed yet. In
/// libfabric 1.17, `shm` endpoints of one process use each other's memory, and the provider does not count the uses. So
/// all are closed when the last one is dropped.
static KEPT: Mutex<(usize, Vec<Open>)> = Mutex::new((0, Vec::new()));
const KEPT_PROVIDER: &str = "shm";

/// Counts a new endpoint of [`KEPT_PROVIDER`].
pub(super) fn opened(provider: &str) {
    if provider == KEPT_PROVIDER {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    }
}

/// Closes an endpoint. An endpoint of [`KEPT_PROVIDER`] is kept until the last one is closed. The caller must have
/// called [`opened`] for it.
pub(super) fn close(provider: &str, open: Open) {
    let Some(_inside) = enter() else { return core::mem::forget(open) };
    if provider != KEPT_PROVIDER {
        return drop(open);
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.0 -= 1;
    kept.1.push(open);
    if kept.0 == 0 {
        kept.1.clear();
    }
}
