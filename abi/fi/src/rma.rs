//! Reads and writes of peers' memory.

use crate::ep::{Ep, pieces};
use crate::object::{long_code, of};
use crate::types::{FidEp, MsgRma, OpsRma};
use core::ffi::c_void;
use sovia_fi::endpoint::Remote;
use sovia_fi::memory::{Buffer, Piece};
use sovia_fi::{EAGER_MAX, Error, flag};

pub(crate) static RMA: OpsRma = OpsRma {
    size: size_of::<OpsRma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

type Desc = *mut c_void;

/// An address in a peer's memory, and the parameters of the completion.
struct Place {
    to: u64,
    address: u64,
    key: u64,
    data: Option<u64>,
    context: *mut c_void,
}

impl Place {
    fn new(to: u64, address: u64, key: u64, context: *mut c_void) -> Place {
        Place { to, address, key, data: None, context }
    }

    fn remote(self, buffer: Buffer, tell: bool) -> Remote {
        let Place { to, address, key, data, context } = self;
        Remote { buffer, to, address, key, data, context: context.addr(), tell }
    }
}

impl Ep {
    /// # Safety
    /// The pieces must be memory that the program lends until the operation is over.
    unsafe fn read_remote(&self, pieces: &[Piece], place: Place, flags: u64) -> isize {
        // SAFETY: this function's contract is that the program lends the pieces until the operation is over.
        let buffer = match unsafe { Buffer::new(pieces) } {
            Ok(buffer) => buffer,
            Err(error) => return long_code(Err(error)),
        };
        let remote = place.remote(buffer, self.tells_send(flags));
        self.run(|endpoint, common| endpoint.read(common, remote))
    }

    /// # Safety
    /// The pieces must be memory that the program lends until the operation is over.
    unsafe fn write_remote(&self, pieces: &[Piece], place: Place, flags: u64, tell: bool) -> isize {
        // SAFETY: this function's contract is that the program lends the pieces until the operation is over.
        let buffer = match unsafe { Buffer::new(pieces) } {
            Ok(buffer) => buffer,
            Err(error) => return long_code(Err(error)),
        };
        if flags & flag::INJECT != 0 && buffer.len() > EAGER_MAX {
            return long_code(Err(Error::TOO_LONG));
        }
        let remote = place.remote(buffer, tell);
        self.run(|endpoint, common| endpoint.write(common, remote))
    }
}

/// Returns the part of a peer's memory that `msg` names. Fails unless `msg` names exactly one.
///
/// # Safety
/// `msg` must be valid, as libfabric's manual pages require.
unsafe fn place_of(msg: &MsgRma, flags: u64) -> Result<Place, Error> {
    if msg.rma_iov_count != 1 {
        return Err(Error::INVALID);
    }
    // SAFETY: `rma_iov` is a valid list by the contract for `msg`, and the check above ensures one element.
    let part = unsafe { *msg.rma_iov };
    let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
    Ok(Place { to: msg.addr, address: part.addr, key: part.key, data, context: msg.context })
}

unsafe extern "C" fn read(
    ep: *mut FidEp,
    to: *mut c_void,
    len: usize,
    _: Desc,
    source: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let place = Place::new(source, address, key, context);
        ep.read_remote(&[Piece { address: to.addr(), len }], place, ep.tx_flags)
    }
}

unsafe extern "C" fn readv(
    ep: *mut FidEp,
    list: *const Piece,
    _: *mut Desc,
    count: usize,
    source: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let place = Place::new(source, address, key, context);
        ep.read_remote(pieces(list, count), place, ep.tx_flags)
    }
}

unsafe extern "C" fn readmsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let msg = &*msg;
        match place_of(msg, 0) {
            Ok(place) => of::<Ep>(ep).read_remote(pieces(msg.msg_iov, msg.iov_count), place, flags),
            Err(error) => long_code(Err(error)),
        }
    }
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    from: *mut c_void,
    len: usize,
    _: Desc,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let (place, flags) = (Place::new(to, address, key, context), ep.tx_flags);
        let piece = Piece { address: from.addr(), len };
        ep.write_remote(&[piece], place, flags, ep.tells_send(flags))
    }
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    list: *const Piece,
    _: *mut Desc,
    count: usize,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let (place, flags) = (Place::new(to, address, key, context), ep.tx_flags);
        ep.write_remote(pieces(list, count), place, flags, ep.tells_send(flags))
    }
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let (ep, msg) = (of::<Ep>(ep), &*msg);
        match place_of(msg, flags) {
            Ok(place) => {
                let pieces = pieces(msg.msg_iov, msg.iov_count);
                ep.write_remote(pieces, place, flags, ep.tells_send(flags))
            }
            Err(error) => long_code(Err(error)),
        }
    }
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    to: u64,
    address: u64,
    key: u64,
) -> isize {
    let place = Place::new(to, address, key, core::ptr::null_mut());
    let piece = Piece { address: from.addr(), len };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Ep>(ep).write_remote(&[piece], place, flag::INJECT, false) }
}

unsafe extern "C" fn writedata(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    _: Desc,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let place = Place { data: Some(data), ..Place::new(to, address, key, context) };
    let piece = Piece { address: from.addr(), len };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        ep.write_remote(&[piece], place, ep.tx_flags, ep.tells_send(ep.tx_flags))
    }
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    address: u64,
    key: u64,
) -> isize {
    let place = Place { data: Some(data), ..Place::new(to, address, key, core::ptr::null_mut()) };
    let piece = Piece { address: from.addr(), len };
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Ep>(ep).write_remote(&[piece], place, flag::INJECT, false) }
}
