//! Opens endpoints, with functions for all kinds of operations.

use crate::ep::{self, Ep};
use crate::object::{Dom, code, hand_out, of};
use crate::types::{Fid, FidDomain, FidEp, Info, class};
use core::ffi::{c_int, c_void};
use sovia_fi::endpoint::Bindings;
use sovia_fi::{Endpoint, Error, flag};
use std::sync::Arc;

/// `fi_endpoint`.
pub unsafe extern "C" fn endpoint(
    dom: *mut FidDomain,
    info: *mut Info,
    made: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let Some(info) = info.as_ref() else { return code(Err(Error::INVALID)) };
        let inner = Arc::clone(&of::<Dom>(dom).inner);
        let own = match Endpoint::new(Bindings::default()) {
            Ok(own) => own,
            Err(error) => return code(Err(error)),
        };
        let at = sovia_fi::domain::insert(&mut inner.enter().endpoints, Box::new(own));
        let fid = Fid { class: class::EP, context, ops: &ep::OPS };
        let object = Ep {
            fid: FidEp {
                fid,
                ops: &ep::EP,
                cm: &ep::CM,
                msg: &crate::msg::MSG,
                rma: &crate::rma::RMA,
                tagged: &crate::tagged::TAGGED,
                atomic: &crate::atomic::ATOMIC,
                collective: core::ptr::null(),
            },
            inner,
            at,
            tx_flags: info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            rx_flags: info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            tx_selective: false,
            rx_selective: false,
            directed: info.caps & flag::DIRECTED_RECV != 0,
            bindings: Bindings::default(),
        };
        hand_out(object, made);
    }
    0
}
