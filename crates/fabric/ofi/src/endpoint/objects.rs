//! What an endpoint consists of, and when that is closed.

use crate::arena::Arena;
use crate::choice::Choice;
use crate::leaving::{File, enter};
use crate::object::Object;
use crate::operation::Operations;
use sovia_fi_types::{FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use via::Memory;

/// Registrations of memory that a peer may read, and the memory.
pub(super) type Lease = (Vec<Object<FidMr>>, Vec<Memory>);

/// What an endpoint consists of. Fields are dropped in this order: each object before those that it was made from.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) ep: Object<FidEp>,
    pub(super) operations: Operations,
    pub(super) regions: HashMap<u64, Object<FidMr>>,
    /// Memory that a peer may read, by the name of the move.
    pub(super) leases: HashMap<u64, Lease>,
    pub(super) _arena_regions: Vec<Object<FidMr>>,
    pub(super) cq: Object<FidCq>,
    pub(super) av: Object<FidAv>,
    pub(super) domain: Object<FidDomain>,
    pub(super) fabric: Object<FidFabric>,
    pub(super) choice: Choice,
    /// Buffers in which frames are received.
    pub(super) awaited: Arc<Arena>,
    /// Buffers from which frames are sent.
    pub(super) outgoing: Arc<Arena>,
    pub(super) _file: Option<File>,
}

// SAFETY: all of libfabric's objects are of one domain, which is opened for use by one thread at a time (`FI_THREAD_DOMAIN`);
// the pointers are to memory of the endpoint's own, or that it keeps.
unsafe impl Send for Open {}

/// How many endpoints of [`KEPT_PROVIDER`] this process has, and those that are closed later: endpoints of `shm` of libfabric 1.17
/// that are in one process use each other's memory, and the provider does not count the uses. They are closed when the last one is
/// dropped.
static KEPT: Mutex<(usize, Vec<Open>)> = Mutex::new((0, Vec::new()));
const KEPT_PROVIDER: &str = "shm";

/// An endpoint of that provider has been opened.
pub(super) fn opened(provider: &str) {
    if provider == KEPT_PROVIDER {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    }
}

/// Closes an endpoint of that provider, of which [`opened`] has been told; or keeps it until the last one is closed.
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
