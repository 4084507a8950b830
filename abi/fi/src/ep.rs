//! Endpoints: their properties, and the sends and receives of `msg` and `tagged`.

use crate::object::{code, long_code, of, ops, take_back};
use crate::types::{Fid, FidEp, Ops, OpsCm, OpsEp, class, missing};
use core::ffi::{c_int, c_void};
use sovia_fi::endpoint::{Bindings, Post, Probe, Send};
use sovia_fi::memory::{Buffer, Piece};
use sovia_fi::{ADDRESS_LEN, Domain, EAGER_MAX, Endpoint, Error, State, flag};
use std::sync::Arc;

pub(crate) static OPS: Ops = Ops { bind, control, ..ops(close) };
pub(crate) static EP: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: missing,
    rx_ctx: missing,
    rx_size_left: missing,
    tx_size_left: missing,
};
pub(crate) static CM: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname: missing,
    getname,
    getpeer: missing,
    connect: missing,
    listen: missing,
    accept: missing,
    reject: missing,
    shutdown: missing,
    join: missing,
};

/// `FI_GETOPSFLAG`, `FI_SETOPSFLAG`, `FI_ENABLE`.
const GET_FLAGS: c_int = 2;
const SET_FLAGS: c_int = 3;
const ENABLE: c_int = 6;
/// `FI_OPT_MIN_MULTI_RECV`, an option at level 0 (endpoints).
const MIN_MULTI_RECV: c_int = 0;

/// Operation kinds that a counter can be bound to, in the order of [`sovia_fi::endpoint::Count`].
const COUNTED: [u64; 6] =
    [flag::SEND, flag::RECV, flag::READ, flag::WRITE, flag::REMOTE_READ, flag::REMOTE_WRITE];

/// A program's endpoint.
#[derive(Debug)]
#[repr(C)]
pub struct Ep {
    pub(crate) fid: FidEp,
    /// The domain of the endpoint.
    pub(crate) inner: Arc<Domain>,
    /// The endpoint's number in the domain.
    pub(crate) at: usize,
    /// Default flags of sends, for calls without a flags argument.
    pub(crate) tx_flags: u64,
    /// Default flags of receives, for calls without a flags argument.
    pub(crate) rx_flags: u64,
    /// Set if only operations with `FI_COMPLETION` write entries to the queue.
    pub(crate) tx_selective: bool,
    pub(crate) rx_selective: bool,
    /// Set if receives may name their source.
    pub(crate) directed: bool,
    pub(crate) bindings: Bindings,
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    let ep = unsafe { take_back::<Ep>(fid) };
    ep.inner.enter().close(ep.at);
    0
}

/// Returns exclusive access to an endpoint. libfabric forbids calls that change an endpoint's properties at the same
/// time as other calls.
///
/// # Safety
/// `fid` must be an open endpoint.
unsafe fn of_mut<'a>(fid: *mut Fid) -> &'a mut Ep {
    // SAFETY: `fid` is an open endpoint. libfabric excludes other calls on the endpoint meanwhile.
    unsafe { &mut *fid.cast::<Ep>() }
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe {
        let ep = of_mut(fid);
        match (*other).class {
            class::CQ => {
                let queue = of::<crate::cq::Cq>(other).at;
                let selective = flags & flag::SELECTIVE_COMPLETION != 0;
                if flags & flag::SEND != 0 {
                    (ep.bindings.send_queue, ep.tx_selective) = (Some(queue), selective);
                }
                if flags & flag::RECV != 0 {
                    (ep.bindings.receive_queue, ep.rx_selective) = (Some(queue), selective);
                }
            }
            class::CNTR => {
                let counter = of::<crate::cntr::Cntr>(other).at;
                for (place, kind) in ep.bindings.counters.iter_mut().zip(COUNTED) {
                    if flags & kind != 0 {
                        *place = Some(counter);
                    }
                }
            }
            class::AV => ep.bindings.vector = Some(of::<crate::av::Av>(other).at),
            class::EQ => {}
            _ => return code(Err(Error::INVALID)),
        }
    }
    0
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The argument of the flag commands
    // is a `u64`.
    unsafe {
        let ep = of_mut(fid);
        match command {
            ENABLE => code(ep.enable()),
            GET_FLAGS => {
                let flags = argument.cast::<u64>();
                *flags = if *flags & flag::RECV != 0 { ep.rx_flags } else { ep.tx_flags };
                0
            }
            SET_FLAGS => {
                let flags = *argument.cast::<u64>();
                let kept = flags & !(flag::SEND | flag::RECV);
                if flags & flag::SEND != 0 {
                    ep.tx_flags = kept;
                }
                if flags & flag::RECV != 0 {
                    ep.rx_flags = kept;
                }
                0
            }
            _ => code(Err(Error::NO_SYSTEM)),
        }
    }
}

impl Ep {
    fn enable(&self) -> Result<(), Error> {
        let bindings = self.bindings;
        let vector = bindings.vector.ok_or(Error::NO_AV)?;
        let queues = [bindings.send_queue, bindings.receive_queue];
        let queues: Vec<usize> = queues.into_iter().flatten().collect();
        let counters: Vec<usize> = bindings.counters.into_iter().flatten().collect();
        if queues.is_empty() && counters.is_empty() {
            return Err(Error::NO_CQ);
        }
        let mut state = self.inner.enter();
        state.endpoint(self.at)?.0.bind(bindings);
        state.drive(self.at, &queues, &counters, vector);
        Ok(())
    }

    /// Returns true if a successful send with these flags writes an entry to the queue.
    #[inline]
    pub(crate) fn tells_send(&self, flags: u64) -> bool {
        !self.tx_selective || flags & flag::COMPLETION != 0
    }

    /// Returns true if a successful receive with these flags writes an entry to the queue.
    #[inline]
    pub(crate) fn tells_receive(&self, flags: u64) -> bool {
        !self.rx_selective || flags & flag::COMPLETION != 0
    }

    /// Runs `f` on the endpoint, and returns a result code for C.
    #[inline(always)]
    pub(crate) fn run(
        &self,
        f: impl FnOnce(&mut Endpoint, &mut sovia_fi::endpoint::Common) -> Result<(), Error>,
    ) -> isize {
        let mut state = self.inner.enter();
        let state: &mut State = &mut state;
        long_code(state.endpoint(self.at).and_then(|(endpoint, common)| f(endpoint, common)))
    }

    /// Sends a message.
    ///
    /// # Safety
    /// The pieces must be memory that the program lends until the operation is over.
    #[inline(always)]
    pub(crate) unsafe fn send(&self, pieces: &[Piece], message: Message, flags: u64) -> isize {
        let Message { to, tag, data, context } = message;
        // SAFETY: this function's contract is that the program lends the pieces until the operation is over.
        let buffer = match unsafe { Buffer::new(pieces) } {
            Ok(buffer) => buffer,
            Err(error) => return long_code(Err(error)),
        };
        if flags & flag::INJECT != 0 && buffer.len() > EAGER_MAX {
            return long_code(Err(Error::TOO_LONG));
        }
        let delivery = flags & (flag::DELIVERY_COMPLETE | flag::MATCH_COMPLETE) != 0;
        let tell = self.tells_send(flags);
        let context = context.addr();
        let mut state = self.inner.enter();
        let (endpoint, common) = match state.endpoint(self.at) {
            Ok(found) => found,
            Err(error) => return long_code(Err(error)),
        };
        // Built in place. A copy would read words just after they were written in parts. Such a read waits for all
        // earlier stores, including messages in cache lines that other processors own.
        long_code(endpoint.send(common, Send { buffer, to, tag, data, context, tell, delivery }))
    }

    /// Sends a message, whose bytes are copied before this function returns. The queue gets no entry.
    ///
    /// # Safety
    /// `from` must point to `len` readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn inject(&self, from: *const c_void, len: usize, message: Message) -> isize {
        if len > EAGER_MAX {
            return long_code(Err(Error::TOO_LONG));
        }
        let Message { to, tag, data, .. } = message;
        // SAFETY: `from` points to `len` readable bytes, and the send copies them before this function returns.
        let buffer = match unsafe { Buffer::new(&[Piece { address: from.addr(), len }]) } {
            Ok(buffer) => buffer,
            Err(error) => return long_code(Err(error)),
        };
        let (tell, delivery) = (false, false);
        let mut state = self.inner.enter();
        let (endpoint, common) = match state.endpoint(self.at) {
            Ok(found) => found,
            Err(error) => return long_code(Err(error)),
        };
        let send = Send { buffer, to, tag, data, context: 0, tell, delivery };
        long_code(endpoint.send(common, send))
    }

    /// Posts a receive, or queries arrived messages.
    ///
    /// # Safety
    /// The pieces must be memory that the program lends until the operation is over.
    #[inline(always)]
    pub(crate) unsafe fn receive(&self, pieces: &[Piece], from: Wanted, flags: u64) -> isize {
        let Wanted { source, tag, context } = from;
        // SAFETY: this function's contract is that the program lends the pieces until the operation is over.
        let buffer = match unsafe { Buffer::new(pieces) } {
            Ok(buffer) => buffer,
            Err(error) => return long_code(Err(error)),
        };
        let directed = self.directed && source != flag::ADDRESS_NONE;
        let (tell, tagged) = (self.tells_receive(flags), tag.is_some());
        let source = if directed { Some(source) } else { None };
        let (tag, ignore) = tag.unwrap_or((0, u64::MAX));
        let (context, multi) = (context.addr(), flags & flag::MULTI_RECV != 0);
        const QUESTIONS: u64 = flag::PEEK | flag::CLAIM | flag::DISCARD;
        if flags & QUESTIONS != 0 {
            let post = Post { buffer, context, tell, tagged, source, tag, ignore, multi };
            return self.ask(post, flags);
        }
        let mut state = self.inner.enter();
        let (endpoint, common) = match state.endpoint(self.at) {
            Ok(found) => found,
            Err(error) => return long_code(Err(error)),
        };
        let post = Post { buffer, context, tell, tagged, source, tag, ignore, multi };
        long_code(endpoint.receive(common, post))
    }

    #[cold]
    fn ask(&self, post: Post, flags: u64) -> isize {
        let has = |bit| flags & bit != 0;
        let (claim, discard) = (has(flag::CLAIM), has(flag::DISCARD));
        self.run(|endpoint, common| match (has(flag::PEEK), claim, discard) {
            (true, false, false) => endpoint.probe(common, &post, Probe::Look),
            (true, true, _) => endpoint.probe(common, &post, Probe::Claim),
            (true, false, true) => endpoint.probe(common, &post, Probe::Discard),
            (false, true, discard) => endpoint.receive_claimed(common, post, !discard),
            (false, false, _) => Err(Error::BAD_FLAGS),
        })
    }
}

/// The fields of a message besides its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) to: u64,
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
    pub(crate) context: *mut c_void,
}

/// Selects the messages of a receive: the source, and a tag with the bits to ignore.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) source: u64,
    pub(crate) tag: Option<(u64, u64)>,
    pub(crate) context: *mut c_void,
}

/// Converts a list of pieces from C.
///
/// # Safety
/// `list` must point to `count` pieces.
pub(crate) unsafe fn pieces<'a>(list: *const Piece, count: usize) -> &'a [Piece] {
    if count == 0 {
        return &[];
    }
    // SAFETY: this function's contract is that `list` points to `count` pieces.
    unsafe { core::slice::from_raw_parts(list, count) }
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require.
    unsafe { of::<Ep>(fid) }.run(|endpoint, common| match endpoint.cancel(common, context.addr()) {
        true => Ok(()),
        false => Err(Error::NO_ENTRY),
    })
}

unsafe extern "C" fn getname(fid: *mut Fid, address: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        let ep = of::<Ep>(fid);
        let room = core::mem::replace(&mut *len, ADDRESS_LEN);
        let mut state = ep.inner.enter();
        let own = match state.endpoint(ep.at) {
            Ok((endpoint, _)) => *endpoint.address(),
            Err(error) => return code(Err(error)),
        };
        let n = room.min(ADDRESS_LEN);
        if n > 0 {
            address.cast::<u8>().copy_from_nonoverlapping(own.bytes().as_ptr(), n);
        }
        if room < ADDRESS_LEN { code(Err(Error::TOO_SMALL)) } else { 0 }
    }
}

unsafe extern "C" fn getopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    if level != 0 || name != MIN_MULTI_RECV {
        return code(Err(Error::NO_OPTION));
    }
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        if *len < size_of::<usize>() {
            return code(Err(Error::TOO_SMALL));
        }
        let ep = of::<Ep>(fid);
        let mut state = ep.inner.enter();
        let Ok((endpoint, _)) = state.endpoint(ep.at) else { return code(Err(Error::BAD_STATE)) };
        *value.cast::<usize>() = endpoint.min_multi_receive;
        *len = size_of::<usize>();
    }
    0
}

unsafe extern "C" fn setopt(
    fid: *mut Fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    if level != 0 || name != MIN_MULTI_RECV {
        return code(Err(Error::NO_OPTION));
    }
    if len != size_of::<usize>() {
        return code(Err(Error::INVALID));
    }
    // SAFETY: C's caller passes valid pointers, as libfabric's manual pages require. The buffer has `len` bytes.
    unsafe {
        let ep = of::<Ep>(fid);
        let mut state = ep.inner.enter();
        let Ok((endpoint, _)) = state.endpoint(ep.at) else { return code(Err(Error::BAD_STATE)) };
        endpoint.min_multi_receive = *value.cast::<usize>();
    }
    0
}
