//! Messages without tags.

use crate::ep::{Ep, Message, Wanted, pieces};
use crate::object::of;
use crate::types::{FidEp, Msg, OpsMsg};
use core::ffi::c_void;
use sovia_fi::flag;
use sovia_fi::memory::Piece;

pub(crate) static MSG: OpsMsg = OpsMsg {
    size: size_of::<OpsMsg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

type Desc = *mut c_void;

fn message(to: u64, data: Option<u64>, context: *mut c_void) -> Message {
    Message { to, tag: None, data, context }
}

fn wanted(source: u64, context: *mut c_void) -> Wanted {
    Wanted { source, tag: None, context }
}

unsafe extern "C" fn recv(
    ep: *mut FidEp,
    to: *mut c_void,
    len: usize,
    _: Desc,
    source: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        ep.receive(&[Piece { address: to.addr(), len }], wanted(source, context), ep.rx_flags)
    }
}

unsafe extern "C" fn recvv(
    ep: *mut FidEp,
    list: *const Piece,
    _: *mut Desc,
    count: usize,
    source: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        ep.receive(pieces(list, count), wanted(source, context), ep.rx_flags)
    }
}

unsafe extern "C" fn recvmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let msg = &*msg;
        let pieces = pieces(msg.msg_iov, msg.iov_count);
        of::<Ep>(ep).receive(pieces, wanted(msg.addr, msg.context), flags)
    }
}

unsafe extern "C" fn send(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    _: Desc,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        ep.send(&[Piece { address: from.addr(), len }], message(to, None, context), ep.tx_flags)
    }
}

unsafe extern "C" fn sendv(
    ep: *mut FidEp,
    list: *const Piece,
    _: *mut Desc,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        ep.send(pieces(list, count), message(to, None, context), ep.tx_flags)
    }
}

unsafe extern "C" fn sendmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let msg = &*msg;
        let data = (flags & flag::REMOTE_CQ_DATA != 0).then_some(msg.data);
        let pieces = pieces(msg.msg_iov, msg.iov_count);
        of::<Ep>(ep).send(pieces, message(msg.addr, data, msg.context), flags)
    }
}

unsafe extern "C" fn inject(ep: *mut FidEp, from: *const c_void, len: usize, to: u64) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Ep>(ep).inject(from, len, message(to, None, core::ptr::null_mut())) }
}

unsafe extern "C" fn senddata(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    _: Desc,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of::<Ep>(ep);
        let piece = Piece { address: from.addr(), len };
        ep.send(&[piece], message(to, Some(data), context), ep.tx_flags)
    }
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    from: *const c_void,
    len: usize,
    data: u64,
    to: u64,
) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Ep>(ep).inject(from, len, message(to, Some(data), core::ptr::null_mut())) }
}
