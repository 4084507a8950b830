//! Address vectors.

use crate::object::{Dom, code, hand_out, of, ops, take_back};
use crate::types::{AvAttr, Fid, FidAv, FidDomain, Ops, OpsAv, class, missing};
use core::ffi::{CStr, c_char, c_int, c_void};
use sovia_fi::vector::Vector;
use sovia_fi::{ADDRESS_LEN, Address, Domain, Error, domain, flag};
use std::sync::Arc;

static OPS: Ops = Ops { bind, ..ops(close) };
static AV: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc,
    insertsym: missing,
    remove,
    lookup,
    straddr,
    av_set: missing,
};

/// `FI_SYNC_ERR`: the program passes memory for one error code per address.
const SYNC_ERR: u64 = 1 << 58;

/// A program's address vector.
#[derive(Debug)]
#[repr(C)]
pub struct Av {
    fid: FidAv,
    /// The domain of the vector.
    pub inner: Arc<Domain>,
    /// The vector's number in the domain.
    pub at: usize,
}

/// `fi_av_open`.
pub unsafe extern "C" fn av_open(
    dom: *mut FidDomain,
    attr: *mut AvAttr,
    av: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let attr = attr.as_ref();
        // A named vector would be shared with other processes.
        if attr.is_some_and(|attr| !attr.name.is_null() || attr.rx_ctx_bits != 0) {
            return code(Err(Error::NO_SYSTEM));
        }
        let inner = Arc::clone(&of::<Dom>(dom).inner);
        let at = domain::insert(&mut inner.enter().common.vectors, Vector::default());
        let fid = Fid { class: class::AV, context, ops: &OPS };
        hand_out(Av { fid: FidAv { fid, ops: &AV }, inner, at }, av);
    }
    0
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let av = unsafe { of::<Av>(fid) };
    {
        let mut state = av.inner.enter();
        let vector = state.common.vectors.get_mut(av.at);
        if vector.as_ref().and_then(|it| it.as_ref()).is_some_and(Vector::is_used) {
            return code(Err(Error::BUSY));
        }
        if let Some(vector) = vector {
            *vector = None;
        }
    }
    // SAFETY: C's caller passes an open address vector, and does not use the vector after this call.
    drop(unsafe { take_back::<Av>(fid) });
    0
}

/// Accepts an event queue. No event follows, because an insertion ends before its call returns.
unsafe extern "C" fn bind(_: *mut Fid, queue: *mut Fid, _: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    match unsafe { (*queue).class } {
        class::EQ => 0,
        _ => code(Err(Error::INVALID)),
    }
}

unsafe extern "C" fn insert(
    av: *mut FidAv,
    addresses: *const c_void,
    count: usize,
    numbers: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes `count` addresses, and memory for as many numbers and errors.
    unsafe {
        let av = of::<Av>(av);
        let mut inserted = 0;
        for i in 0..count {
            let bytes = addresses.cast::<u8>().add(i * ADDRESS_LEN);
            let address = Address::read(core::slice::from_raw_parts(bytes, ADDRESS_LEN));
            let number = address.map(|address| av.insert(address));
            inserted += c_int::from(number.is_some());
            if !numbers.is_null() {
                *numbers.add(i) = number.unwrap_or(flag::ADDRESS_NONE);
            }
            if flags & SYNC_ERR != 0 && !context.is_null() {
                let error = number.map_or(Error::INVALID.0, |_| 0);
                *context.cast::<c_int>().add(i) = error;
            }
        }
        inserted
    }
}

impl Av {
    fn insert(&self, address: Address) -> u64 {
        let mut state = self.inner.enter();
        let Some(vector) = state.common.vectors.get_mut(self.at).and_then(Option::as_mut) else {
            return flag::ADDRESS_NONE;
        };
        let number = vector.insert(address);
        // An endpoint may have received messages from this address before.
        for endpoint in vector.endpoints() {
            if let Ok((endpoint, _)) = state.endpoint(endpoint) {
                endpoint.note(&address, number);
            }
        }
        number
    }
}

/// Inserts an address given as text, in the format of `straddr`.
unsafe extern "C" fn insertsvc(
    av: *mut FidAv,
    node: *const c_char,
    service: *const c_char,
    number: *mut u64,
    _: u64,
    _: *mut c_void,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let text = if node.is_null() { service } else { node };
        if text.is_null() {
            return code(Err(Error::INVALID));
        }
        let address = CStr::from_ptr(text).to_str().ok().and_then(Address::from_text);
        let Some(address) = address else { return code(Err(Error::INVALID)) };
        let its = of::<Av>(av).insert(address);
        if !number.is_null() {
            *number = its;
        }
    }
    1
}

unsafe extern "C" fn remove(av: *mut FidAv, numbers: *mut u64, count: usize, _: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The list has `count` numbers.
    let (av, numbers) = unsafe { (of::<Av>(av), core::slice::from_raw_parts(numbers, count)) };
    let mut state = av.inner.enter();
    for &number in numbers {
        let Some(vector) = state.common.vectors.get_mut(av.at).and_then(Option::as_mut) else {
            return code(Err(Error::INVALID));
        };
        if vector.remove(number).is_none() {
            return code(Err(Error::INVALID));
        }
        for endpoint in vector.endpoints() {
            if let Ok((endpoint, _)) = state.endpoint(endpoint) {
                endpoint.forget(number);
            }
        }
    }
    0
}

unsafe extern "C" fn lookup(
    av: *mut FidAv,
    number: u64,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        let av = of::<Av>(av);
        let found = {
            let mut state = av.inner.enter();
            let vector = state.common.vectors.get_mut(av.at).and_then(Option::as_mut);
            vector.and_then(|vector| vector.get(number))
        };
        let Some(found) = found else { return code(Err(Error::INVALID)) };
        let room = (*len).min(ADDRESS_LEN);
        address.cast::<u8>().copy_from_nonoverlapping(found.bytes().as_ptr(), room);
        *len = ADDRESS_LEN;
    }
    0
}

unsafe extern "C" fn straddr(
    _: *mut FidAv,
    address: *const c_void,
    to: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: C's caller passes an address, and a buffer of `len` bytes.
    unsafe {
        let bytes = core::slice::from_raw_parts(address.cast::<u8>(), ADDRESS_LEN);
        let text = Address::read(bytes).map_or(String::new(), |address| address.to_text());
        if *len > 0 {
            let n = text.len().min(*len - 1);
            to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), n);
            *to.add(n) = 0;
        }
        *len = text.len() + 1;
    }
    to
}
