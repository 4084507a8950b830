//! Counters.

use crate::object::{Dom, code, hand_out, of, ops, take_back};
use crate::types::{CntrAttr, Fid, FidCntr, FidDomain, Ops, OpsCntr, class};
use crate::wait::{WAITS, Wait};
use core::ffi::{c_int, c_void};
use sovia_fi::completion::Counter;
use sovia_fi::{Domain, Error, domain};
use std::sync::Arc;

static OPS: Ops = ops(close);
static CNTR: OpsCntr =
    OpsCntr { size: size_of::<OpsCntr>(), read, readerr, add, set, wait, adderr, seterr };

/// `FI_CNTR_EVENTS_COMP`.
const COMPLETIONS: c_int = 0;

/// A program's counter.
#[derive(Debug)]
#[repr(C)]
pub struct Cntr {
    fid: FidCntr,
    /// The domain of the counter.
    pub inner: Arc<Domain>,
    /// The counter's number in the domain.
    pub at: usize,
}

/// `fi_cntr_open`.
pub unsafe extern "C" fn cntr_open(
    dom: *mut FidDomain,
    attr: *mut CntrAttr,
    cntr: *mut *mut FidCntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        // Versions after 1.17 can request a count of bytes.
        let is_known =
            |attr: &CntrAttr| attr.events == COMPLETIONS && WAITS.contains(&attr.wait_obj);
        if !attr.as_ref().is_none_or(is_known) {
            return code(Err(Error::NO_SYSTEM));
        }
        let inner = Arc::clone(&of::<Dom>(dom).inner);
        let at = domain::insert(&mut inner.enter().common.counters, Counter::default());
        let fid = Fid { class: class::CNTR, context, ops: &OPS };
        hand_out(Cntr { fid: FidCntr { fid, ops: &CNTR }, inner, at }, cntr);
    }
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let cntr = unsafe { of::<Cntr>(fid) };
    {
        let mut state = cntr.inner.enter();
        if state.counter(cntr.at).is_ok_and(|counter| counter.is_used()) {
            return code(Err(Error::BUSY));
        }
        state.common.counters[cntr.at] = None;
    }
    // SAFETY: C's caller passes an open counter, and does not use the counter after this call.
    drop(unsafe { take_back::<Cntr>(fid) });
    0
}

impl Cntr {
    fn with<T: Default>(&self, f: impl FnOnce(&mut Counter) -> T) -> T {
        self.inner.enter().counter(self.at).map(f).unwrap_or_default()
    }

    fn read(&self) -> (u64, u64) {
        self.inner.enter().progress_of_counter(self.at);
        self.with(|counter| (counter.value, counter.errors))
    }
}

unsafe extern "C" fn read(cntr: *mut FidCntr) -> u64 {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.read().0
}

unsafe extern "C" fn readerr(cntr: *mut FidCntr) -> u64 {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.read().1
}

unsafe extern "C" fn add(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.with(|it| it.value = it.value.wrapping_add(value));
    0
}

unsafe extern "C" fn set(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.with(|it| it.value = value);
    0
}

unsafe extern "C" fn adderr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.with(|it| it.errors = it.errors.wrapping_add(value));
    0
}

unsafe extern "C" fn seterr(cntr: *mut FidCntr, value: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Cntr>(cntr) }.with(|it| it.errors = value);
    0
}

/// Waits until the counter reaches `threshold`, or an operation fails.
unsafe extern "C" fn wait(cntr: *mut FidCntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let cntr = unsafe { of::<Cntr>(cntr) };
    let failed_before = cntr.with(|counter| counter.errors);
    let mut wait = Wait::new(timeout);
    loop {
        let (value, errors) = cntr.read();
        if value >= threshold {
            return 0;
        }
        if errors != failed_before {
            return code(Err(Error::AVAILABLE));
        }
        if !wait.go_on() {
            return code(Err(Error::TIMEOUT));
        }
    }
}
