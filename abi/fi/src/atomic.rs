//! Atomic operations on peers' memory.

use crate::ep::Ep;
use crate::object::{code, long_code, of};
use crate::types::{FidEp, Ioc, MsgAtomic, OpsAtomic};
use core::ffi::{c_int, c_void};
use sovia_fi::atomic::Code;
use sovia_fi::endpoint::{ATOMIC_MAX, Remote};
use sovia_fi::memory::{Buffer, PIECES_MAX, Piece};
use sovia_fi::{Error, flag};

pub(crate) static ATOMIC: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

type Desc = *mut c_void;

/// Converts libfabric's numbers; fails if the provider does not offer the operation.
pub(crate) fn code_of(
    datatype: c_int,
    op: c_int,
    fetches: bool,
    compares: bool,
) -> Result<Code, Error> {
    let number = |of: c_int| u8::try_from(of).map_err(|_| Error::NOT_SUPPORTED);
    let code = Code { op: number(op)?, datatype: number(datatype)?, compares, fetches };
    if code.is_offered() { Ok(code) } else { Err(Error::NOT_SUPPORTED) }
}

/// Returns the maximum number of elements of one call, and the size of an element.
pub(crate) fn limit(code: Code) -> (usize, usize) {
    let size = code.size().unwrap_or(1);
    (ATOMIC_MAX / size / if code.compares { 2 } else { 1 }, size)
}

/// An atomic operation, and the address in a peer's memory.
struct Call {
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    data: Option<u64>,
    context: *mut c_void,
    tell: bool,
}

/// Elements in the program's memory, as libfabric describes them.
#[derive(Clone, Copy)]
struct Elements<'a>(&'a [Ioc]);

impl Elements<'_> {
    /// # Safety
    /// The elements must be memory that the program lends until the operation is over.
    unsafe fn buffer(self, size: usize) -> Result<Buffer, Error> {
        let mut pieces = [Piece::default(); PIECES_MAX];
        let pieces = pieces.get_mut(..self.0.len()).ok_or(Error::INVALID)?;
        for (piece, part) in pieces.iter_mut().zip(self.0) {
            let len = part.count.checked_mul(size).ok_or(Error::INVALID)?;
            *piece = Piece { address: part.addr.addr(), len };
        }
        // SAFETY: this function's contract is that the program lends the elements until the operation is over.
        unsafe { Buffer::new(pieces) }
    }
}

impl Call {
    /// # Safety
    /// All elements must be memory that the program lends until the operation is over.
    unsafe fn run(
        self,
        ep: &Ep,
        operands: Elements<'_>,
        results: Option<Elements<'_>>,
        compares: Option<Elements<'_>>,
    ) -> isize {
        let Call { to, address, key, datatype, op, data, context, tell } = self;
        let made = || {
            let code = code_of(datatype, op, results.is_some(), compares.is_some())?;
            let size = code.size().ok_or(Error::NOT_SUPPORTED)?;
            let buffer = |of: Option<Elements<'_>>| match of {
                // SAFETY: this function's contract is that the program lends the elements until the operation is over.
                Some(elements) => unsafe { elements.buffer(size) },
                None => Ok(Buffer::default()),
            };
            // `FI_ATOMIC_READ` has no operands.
            const READ: u8 = 10;
            let operands = buffer(Some(operands).filter(|_| code.op != READ))?;
            Ok((code, operands, buffer(results)?, buffer(compares)?))
        };
        match made() {
            Ok((code, operands, buffer, compares)) => {
                let context = context.addr();
                let remote = Remote { buffer, to, address, key, data, context, tell };
                ep.run(|endpoint, common| {
                    endpoint.atomic(common, remote, code, &operands, &compares)
                })
            }
            Err(error) => long_code(Err(error)),
        }
    }

    /// # Safety
    /// `msg` must be valid, as libfabric's manual pages require.
    unsafe fn of_message(ep: &Ep, msg: &MsgAtomic, flags: u64) -> Result<Call, Error> {
        if msg.rma_iov_count != 1 {
            return Err(Error::INVALID);
        }
        // SAFETY: `rma_iov` is a valid list by the contract for `msg`, and the check above ensures one element.
        let part = unsafe { *msg.rma_iov };
        Ok(Call {
            to: msg.addr,
            address: part.addr,
            key: part.key,
            datatype: msg.datatype,
            op: msg.op,
            data: (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data),
            context: msg.context,
            tell: ep.tells_send(flags),
        })
    }
}

/// # Safety
/// `list` must point to `count` elements.
unsafe fn elements<'a>(list: *const Ioc, count: usize) -> Elements<'a> {
    if count == 0 {
        return Elements(&[]);
    }
    // SAFETY: this function's contract is that `list` points to `count` elements.
    Elements(unsafe { core::slice::from_raw_parts(list, count) })
}

fn one(addr: *const c_void, count: usize) -> [Ioc; 1] {
    [Ioc { addr: addr.cast_mut(), count }]
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    from: *const c_void,
    count: usize,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        call.run(ep, Elements(&one(from, count)), None, None)
    }
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    list: *const Ioc,
    _: *mut Desc,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        call.run(ep, elements(list, count), None, None)
    }
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgAtomic, flags: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let (ep, msg) = (of::<Ep>(ep), &*msg);
        match Call::of_message(ep, msg, flags) {
            Ok(call) => call.run(ep, elements(msg.msg_iov, msg.iov_count), None, None),
            Err(error) => long_code(Err(error)),
        }
    }
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    from: *const c_void,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
) -> isize {
    let context = core::ptr::null_mut();
    let call = Call { to, address, key, datatype, op, data: None, context, tell: false };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { call.run(of::<Ep>(ep), Elements(&one(from, count)), None, None) }
}

unsafe extern "C" fn readwrite(
    ep: *mut FidEp,
    from: *const c_void,
    count: usize,
    _: Desc,
    result: *mut c_void,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        let (from, result) = (one(from, count), one(result, count));
        call.run(ep, Elements(&from), Some(Elements(&result)), None)
    }
}

unsafe extern "C" fn readwritev(
    ep: *mut FidEp,
    list: *const Ioc,
    _: *mut Desc,
    count: usize,
    results: *mut Ioc,
    _: *mut Desc,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        let results = elements(results, result_count);
        call.run(ep, elements(list, count), Some(results), None)
    }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    results: *mut Ioc,
    _: *mut Desc,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let (ep, msg) = (of::<Ep>(ep), &*msg);
        let results = elements(results, result_count);
        match Call::of_message(ep, msg, flags) {
            Ok(call) => call.run(ep, elements(msg.msg_iov, msg.iov_count), Some(results), None),
            Err(error) => long_code(Err(error)),
        }
    }
}

unsafe extern "C" fn compwrite(
    ep: *mut FidEp,
    from: *const c_void,
    count: usize,
    _: Desc,
    compare: *const c_void,
    _: Desc,
    result: *mut c_void,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        let (from, compare) = (one(from, count), one(compare, count));
        let result = one(result, count);
        call.run(ep, Elements(&from), Some(Elements(&result)), Some(Elements(&compare)))
    }
}

unsafe extern "C" fn compwritev(
    ep: *mut FidEp,
    list: *const Ioc,
    _: *mut Desc,
    count: usize,
    compares: *const Ioc,
    _: *mut Desc,
    compare_count: usize,
    results: *mut Ioc,
    _: *mut Desc,
    result_count: usize,
    to: u64,
    address: u64,
    key: u64,
    datatype: c_int,
    op: c_int,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let tell = ep.tells_send(ep.tx_flags);
        let call = Call { to, address, key, datatype, op, data: None, context, tell };
        let results = elements(results, result_count);
        let compares = elements(compares, compare_count);
        call.run(ep, elements(list, count), Some(results), Some(compares))
    }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    compares: *const Ioc,
    _: *mut Desc,
    compare_count: usize,
    results: *mut Ioc,
    _: *mut Desc,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let (ep, msg) = (of::<Ep>(ep), &*msg);
        let results = elements(results, result_count);
        let compares = elements(compares, compare_count);
        let operands = elements(msg.msg_iov, msg.iov_count);
        match Call::of_message(ep, msg, flags) {
            Ok(call) => call.run(ep, operands, Some(results), Some(compares)),
            Err(error) => long_code(Err(error)),
        }
    }
}

/// # Safety
/// `count` must be null or writable.
unsafe fn valid(asked: Result<Code, Error>, count: *mut usize) -> c_int {
    match asked {
        Ok(code) => {
            if !count.is_null() {
                // SAFETY: `count` is not null, so this function's contract makes it writable.
                unsafe { *count = limit(code).0 };
            }
            0
        }
        Err(error) => code(Err(error)),
    }
}

unsafe extern "C" fn writevalid(
    _: *mut FidEp,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { valid(code_of(datatype, op, false, false), count) }
}

unsafe extern "C" fn readwritevalid(
    _: *mut FidEp,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { valid(code_of(datatype, op, true, false), count) }
}

unsafe extern "C" fn compwritevalid(
    _: *mut FidEp,
    datatype: c_int,
    op: c_int,
    count: *mut usize,
) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { valid(code_of(datatype, op, true, true), count) }
}
