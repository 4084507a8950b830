//! A reliable datagram endpoint.

use crate::arena::{Arena, Lent};
use crate::choice::{Choice, Limits};
use crate::error::Error;
use crate::library::Library;
use crate::object::Object;
use crate::operation::{Kind, Operation, Operations, Peer};
use core::ffi::{c_int, c_void};
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::{NonNull, null, null_mut};
use sovia_fi_types::{
    AvAttr, CqAttr, CqEntry, CqErrEntry, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr, Piece,
};
use sovia_sys::call::RawFd;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use via::Memory;

const RECV: u64 = 1 << 10;
const SEND: u64 = 1 << 11;
const READ: u64 = 1 << 8;
const WRITE: u64 = 1 << 9;
const REMOTE_READ: u64 = 1 << 12;
const REMOTE_WRITE: u64 = 1 << 13;
const GETWAIT: c_int = 5;
const ENABLE: c_int = 6;
const CQ_FORMAT_MSG: c_int = 2;
const WAIT_NONE: c_int = 0;
const WAIT_FD: c_int = 3;
/// `FI_EAVAIL`: the completion queue has an error to be read.
const ERROR_AVAILABLE: isize = 259;
const AGAIN: isize = libc::EAGAIN as isize;
/// Any peer.
const ANY: u64 = u64::MAX;

/// Frames that are awaited at a time.
const AWAITED: usize = 256;
/// Frames that are on their way, or wait for the provider, at most. A further one is not sent.
const OUTGOING: usize = 2048;
/// Completions that are read at a time.
const AT_ONCE: usize = 16;

/// A part of memory that bytes are moved from or to.
#[derive(Debug, Clone)]
pub struct Span {
    /// The memory. It stays valid until the move is over ([`Event::Moved`]), as [`Memory::from_raw`] asks.
    pub memory: Memory,
    /// Where in it the part begins.
    pub at: usize,
    /// Its bytes.
    pub len: u32,
    /// The registration, if there is one.
    pub key: Option<u64>,
}

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// A frame has come. It is to be given back ([`Endpoint::give_back`]).
    Frame(Lent),
    /// The move of that name is over, and its memory free; whether all bytes have arrived.
    Moved(u64, bool),
    /// Something could not be sent to a peer, which has not got it; libfabric's number of the error.
    Failed(Peer, i32),
}

/// A buffer of an arena.
type Buffer = usize;

/// What waits until the provider has room.
#[derive(Debug)]
enum Waiting {
    Frame(Buffer, usize, Peer),
    Move(NonNull<Operation>),
}

/// Endpoints of a provider that hands those of one process each other's memory and does not count who has it, as `shm` of
/// libfabric 1.17 does: they are closed when the last one is.
static KEPT: Mutex<(usize, Vec<Open>)> = Mutex::new((0, Vec::new()));
const KEPT_PROVIDER: &str = "shm";

/// What an endpoint consists of. What is dropped first comes first.
#[derive(Debug)]
struct Open {
    ep: Object<FidEp>,
    operations: Operations,
    regions: HashMap<u64, Object<FidMr>>,
    _arena_regions: Vec<Object<FidMr>>,
    cq: Object<FidCq>,
    av: Object<FidAv>,
    domain: Object<FidDomain>,
    fabric: Object<FidFabric>,
    choice: Choice,
    /// Buffers for frames that come, and that go.
    awaited: Arc<Arena>,
    outgoing: Arc<Arena>,
}

// SAFETY: all of libfabric's objects are of one domain, which is opened for use by one thread at a time (`FI_THREAD_DOMAIN`);
// the pointers are to memory of the endpoint's own, or that it keeps.
unsafe impl Send for Open {}

/// An endpoint with all that belongs to it.
pub struct Endpoint {
    /// Until the endpoint is dropped.
    open: ManuallyDrop<Open>,
    library: &'static Library,
    limits: Limits,
    name: String,
    address: Box<[u8]>,
    /// The descriptors of the buffers' registrations.
    awaited_desc: *mut c_void,
    outgoing_desc: *mut c_void,
    free: Vec<Buffer>,
    /// Buffers in which frames are to be awaited again.
    unposted: Vec<Buffer>,
    /// By peer; receives have no peer.
    waiting: BTreeMap<Option<Peer>, VecDeque<Waiting>>,
    /// What has happened outside of [`Endpoint::poll`].
    noted: Vec<Event>,
    descriptor: Option<RawFd>,
    next_key: u64,
}

// SAFETY: as for `Open`.
unsafe impl Send for Endpoint {}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { name, address, limits, .. } = self;
        let shown =
            f.debug_struct("Endpoint").field("name", name).field("address", address).finish();
        shown.and_then(|()| write!(f, " {limits:?}"))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        let open = unsafe { ManuallyDrop::take(&mut self.open) };
        if self.name != KEPT_PROVIDER {
            return;
        }
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0 -= 1;
        kept.1.push(open);
        if kept.0 == 0 {
            kept.1.clear();
        }
    }
}

impl Endpoint {
    /// Opens an endpoint of a provider (`tcp;ofi_rxm`, `shm`): at an address of this host's and a port or another service, or
    /// wherever the provider likes. Frames have up to `frame` bytes.
    ///
    /// # Errors
    /// [`Error`].
    pub fn open(
        provider: &str,
        (node, service): (Option<&str>, Option<&str>),
        frame: usize,
    ) -> Result<Endpoint, Error> {
        let library = Library::load()?;
        let choice = Choice::of(library, provider, node, service)?;
        let limits = choice.limits();
        let name = choice.name();
        let check = |call, result: c_int| match result {
            0 => Ok(()),
            errno => Err(failed(library, &name, call, errno)),
        };
        let nothing = |call| failed(library, &name, call, libc::ENOMEM);
        // SAFETY: each object is made from those before it, as the manual pages say, by pointers that are good for the call.
        let (fabric, domain, av, cq, ep, descriptor) = unsafe {
            let info = choice.info;
            let mut fabric = null_mut();
            let attr = (*info).fabric_attr;
            check("fi_fabric", (library.fabric)(attr, &raw mut fabric, null_mut()))?;
            let fabric = Object::new(fabric).ok_or_else(|| nothing("fi_fabric"))?;
            let ops = (*fabric.raw()).ops;
            let mut domain = null_mut();
            let made = ((*ops).domain)(fabric.raw(), info, &raw mut domain, null_mut());
            check("fi_domain", made)?;
            let domain = Object::new(domain).ok_or_else(|| nothing("fi_domain"))?;
            let ops = (*domain.raw()).ops;
            let mut av = null_mut();
            let mut attr = AvAttr {
                kind: 0,
                rx_ctx_bits: 0,
                count: 0,
                ep_per_node: 0,
                name: null(),
                map_addr: null_mut(),
                flags: 0,
            };
            let made = ((*ops).av_open)(domain.raw(), &raw mut attr, &raw mut av, null_mut());
            check("fi_av_open", made)?;
            let av = Object::new(av).ok_or_else(|| nothing("fi_av_open"))?;
            let size = AWAITED + OUTGOING + limits.sends + limits.receives;
            let size = size.min((*(*info).domain_attr).cq_cnt.max(size)).min(1 << 16);
            let (cq, descriptor) = open_cq(&domain, size, WAIT_FD)
                .or_else(|_| open_cq(&domain, size, WAIT_NONE))
                .map_err(|errno| failed(library, &name, "fi_cq_open", errno))?;
            let mut ep = null_mut();
            let made = ((*ops).endpoint)(domain.raw(), info, &raw mut ep, null_mut());
            check("fi_endpoint", made)?;
            let ep = Object::new(ep).ok_or_else(|| nothing("fi_endpoint"))?;
            let ops = (*ep.fid()).ops;
            check("fi_ep_bind", ((*ops).bind)(ep.fid(), av.fid(), 0))?;
            check("fi_ep_bind", ((*ops).bind)(ep.fid(), cq.fid(), SEND | RECV))?;
            check("fi_enable", ((*ops).control)(ep.fid(), ENABLE, null_mut()))?;
            (fabric, domain, av, cq, ep, descriptor)
        };
        let address = address_of(&ep).map_err(|e| failed(library, &name, "fi_getname", e))?;
        let [awaited, outgoing] =
            [AWAITED.min(limits.receives.max(1)), OUTGOING].map(|n| Arc::new(Arena::new(n, frame)));
        let (free, unposted) =
            ((0..outgoing.count()).rev().collect(), (0..awaited.count()).collect());
        let open = Open {
            ep,
            operations: Operations::default(),
            regions: HashMap::new(),
            _arena_regions: Vec::new(),
            cq,
            av,
            domain,
            fabric,
            choice,
            awaited,
            outgoing,
        };
        if name == KEPT_PROVIDER {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        }
        let mut endpoint = Endpoint {
            open: ManuallyDrop::new(open),
            library,
            limits,
            name,
            address,
            awaited_desc: null_mut(),
            outgoing_desc: null_mut(),
            free,
            unposted,
            waiting: BTreeMap::new(),
            noted: Vec::new(),
            descriptor,
            next_key: 1,
        };
        if limits.registers {
            let (start, len) = endpoint.open.awaited.range();
            let (awaited, desc) = endpoint.registered(start, len)?;
            endpoint.awaited_desc = desc;
            let (start, len) = endpoint.open.outgoing.range();
            let (outgoing, desc) = endpoint.registered(start, len)?;
            endpoint.outgoing_desc = desc;
            endpoint.open._arena_regions.extend([awaited, outgoing]);
        }
        endpoint.post_receives();
        Ok(endpoint)
    }

    /// The provider's own name, which may say more than the one that was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the provider allows.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Its address: what [`Endpoint::peer`] of another one takes.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// What becomes readable when something has happened, where the provider has that.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Bytes of the longest frame.
    pub fn frame_max(&self) -> usize {
        self.open.outgoing.each
    }

    /// Operations that move bytes at present, and regions that are registered: for tests, which count them.
    pub fn counts(&self) -> (usize, usize) {
        (self.open.operations.moving(), self.open.regions.len())
    }

    fn failed(&self, call: &'static str, errno: c_int) -> Error {
        failed(self.library, &self.name, call, errno)
    }

    /// The endpoint of that address.
    ///
    /// # Errors
    /// [`Error::Call`] where the provider cannot have such an address.
    pub fn peer(&mut self, address: &[u8]) -> Result<Peer, Error> {
        // SAFETY: the object is open.
        let len = unsafe { (*self.open.choice.info).src_addrlen };
        // Providers read as much as their addresses have.
        let mut room = vec![0u8; len.max(address.len()).max(64)];
        room[..address.len()].copy_from_slice(address);
        let mut found = ANY;
        // SAFETY: the address has the room that providers look at.
        let inserted = unsafe {
            let insert = (*(*self.open.av.raw()).ops).insert;
            insert(self.open.av.raw(), room.as_ptr().cast(), 1, &raw mut found, 0, null_mut())
        };
        if inserted == 1 { Ok(Peer(found)) } else { Err(self.failed("fi_av_insert", inserted)) }
    }

    /// Sends a frame, which `write` writes; it says how many bytes it has, or that there is none after all. False if there is no
    /// room for it.
    pub fn send(&mut self, to: Peer, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(buffer) = self.free.pop() else { return false };
        // SAFETY: the buffer is free, so that nothing else looks at it.
        let room = unsafe {
            let start = self.open.outgoing.buffer(buffer);
            core::slice::from_raw_parts_mut(start, self.open.outgoing.each)
        };
        let Some(len) = write(room).filter(|&len| len <= room.len()) else {
            self.free.push(buffer);
            return true;
        };
        if self.waiting.contains_key(&Some(to)) || !self.try_send(buffer, len, to) {
            self.wait(Some(to), Waiting::Frame(buffer, len, to));
        }
        true
    }

    /// The provider has no room for something to that peer.
    fn wait(&mut self, to: Option<Peer>, waiting: Waiting) {
        self.waiting.entry(to).or_default().push_back(waiting);
    }

    /// Hands a frame to the provider; false if that has no room.
    fn try_send(&mut self, buffer: Buffer, len: usize, to: Peer) -> bool {
        // SAFETY: the buffer stays as it is until the operation is over; the tables are complete.
        unsafe {
            let (ep, start) =
                (self.open.ep.raw(), self.open.outgoing.buffer(buffer).cast::<c_void>());
            let ops = (*ep).msg;
            if len <= self.limits.inject {
                let result = ((*ops).inject)(ep, start, len, to.0);
                if result == -AGAIN {
                    return false;
                }
                if result != 0 {
                    self.noted.push(Event::Failed(to, result as i32));
                }
                self.free.push(buffer);
                return true;
            }
            let operation = self.open.operations.begin(Kind::Send(buffer, to));
            let context = operation.as_ptr().cast();
            let result = ((*ops).send)(ep, start, len, self.outgoing_desc, to.0, context);
            if result != 0 {
                self.open.operations.end(operation);
                if result == -AGAIN {
                    return false;
                }
                self.noted.push(Event::Failed(to, result as i32));
                self.free.push(buffer);
            }
            true
        }
    }

    /// Sends bytes of memory to a peer, which takes them under that tag; [`Event::Moved`] says when they have gone.
    pub fn move_out(&mut self, name: u64, to: Peer, tag: u64, from: Vec<Span>) {
        self.begin_move(Kind::Out(name, to), tag, from);
    }

    /// Takes the bytes that come under that tag, into memory; [`Event::Moved`] says when they are there.
    pub fn move_in(&mut self, name: u64, tag: u64, into: Vec<Span>) {
        self.begin_move(Kind::In(name), tag, into);
    }

    fn begin_move(&mut self, kind: Kind, tag: u64, spans: Vec<Span>) {
        let (name, to) = match kind {
            Kind::In(name) => (name, None),
            Kind::Out(name, to) => (name, Some(to)),
            _ => return,
        };
        let piece = |span: &Span| {
            let start = span.memory.range(span.memory.address(span.at), span.len)?;
            Some(Piece { address: start.as_ptr().expose_provenance(), len: span.len as usize })
        };
        let pieces: Option<Vec<Piece>> = spans.iter().map(piece).collect();
        let pieces = pieces.filter(|pieces| pieces.len() <= self.limits.parts);
        let operation = self.open.operations.begin(kind);
        let Some(pieces) = pieces else {
            // SAFETY: libfabric has not seen it.
            unsafe { self.open.operations.end(operation) };
            return self.noted.push(Event::Moved(name, false));
        };
        let mut registered = None;
        if self.limits.registers
            && let [Span { key: None, .. }] = &spans[..]
        {
            // Memory that is used for this alone.
            let start = core::ptr::with_exposed_provenance_mut(pieces[0].address);
            registered = self.registered(start, pieces[0].len).ok();
        }
        let own = registered.as_ref().map_or(null_mut(), |(_, desc)| *desc);
        // SAFETY: registrations are open.
        let find = |key: &u64| self.open.regions.get(key).map(|it| unsafe { (*it.raw()).mem_desc });
        let desc = |span: &Span| span.key.as_ref().and_then(find).unwrap_or(own);
        let descs: Vec<_> = spans.iter().map(desc).collect();
        // SAFETY: libfabric has not seen it.
        let it = unsafe { &mut *operation.as_ptr() };
        (it.pieces, it.descs, it.tag) = (pieces, descs, tag);
        it.registered = registered.map(|(region, _)| region);
        it.memory.extend(spans.into_iter().map(|span| span.memory));
        if self.waiting.contains_key(&to) || !self.try_move(operation) {
            self.wait(to, Waiting::Move(operation));
        }
    }

    /// Hands a move to the provider; false if that has no room.
    fn try_move(&mut self, operation: NonNull<Operation>) -> bool {
        let context = operation.as_ptr().cast();
        // SAFETY: it is not under way yet; its memory stays until it is over; the tables are complete.
        let result = unsafe {
            let it = &mut *operation.as_ptr();
            let (ep, ops, tag) = (self.open.ep.raw(), (*self.open.ep.raw()).tagged, it.tag);
            let (pieces, descs, count) =
                (it.pieces.as_ptr(), it.descs.as_mut_ptr(), it.pieces.len());
            match it.kind {
                Kind::Out(_, to) => ((*ops).sendv)(ep, pieces, descs, count, to.0, tag, context),
                _ => ((*ops).recvv)(ep, pieces, descs, count, ANY, tag, 0, context),
            }
        };
        if result == -AGAIN {
            return false;
        }
        if result != 0 {
            // SAFETY: libfabric has not taken it.
            let kind = unsafe { self.open.operations.end(operation) };
            self.note_end(&kind, Some(result as i32));
        }
        true
    }

    /// An operation that moves bytes is over.
    fn note_end(&mut self, kind: &Kind, errno: Option<i32>) {
        match *kind {
            Kind::Out(name, to) => {
                self.noted.push(Event::Moved(name, errno.is_none()));
                if let Some(errno) = errno {
                    self.noted.push(Event::Failed(to, errno));
                }
            }
            Kind::In(name) => self.noted.push(Event::Moved(name, errno.is_none())),
            Kind::Free | Kind::Receive(_) | Kind::Send(..) => {}
        }
    }

    /// Ends a move that need not come to its end. [`Event::Moved`] follows, whether it has ended in time or not.
    pub fn cancel(&mut self, name: u64) {
        let Some(operation) = self.open.operations.find(name) else { return };
        let waits = |it: &Waiting| matches!(it, Waiting::Move(one) if *one == operation);
        let found = self.waiting.values_mut().find_map(|all| {
            let at = all.iter().position(waits)?;
            all.remove(at)
        });
        if found.is_some() {
            self.waiting.retain(|_, all| !all.is_empty());
            // SAFETY: libfabric has not seen it.
            unsafe { self.open.operations.end(operation) };
            return self.noted.push(Event::Moved(name, false));
        }
        // SAFETY: the endpoint is open, and the operation under way.
        unsafe {
            let cancel = (*(*self.open.ep.raw()).ops).cancel;
            cancel(self.open.ep.fid(), operation.as_ptr().cast());
        }
    }

    /// Takes what has happened since, and makes progress.
    pub fn poll(&mut self, events: &mut Vec<Event>) {
        // SAFETY: any bytes are an entry.
        let mut entries: [CqEntry; AT_ONCE] = unsafe { core::mem::zeroed() };
        loop {
            // SAFETY: the queue is open, and the entries have room: those of its format are shorter.
            let read = unsafe {
                let read = (*(*self.open.cq.raw()).ops).read;
                read(self.open.cq.raw(), entries.as_mut_ptr().cast(), AT_ONCE)
            };
            if read == -ERROR_AVAILABLE {
                self.take_error(events);
                continue;
            }
            let Ok(count) = usize::try_from(read) else { break };
            // SAFETY: so many entries of the format have been written, one behind the other.
            let entries = unsafe {
                core::slice::from_raw_parts(entries.as_ptr().cast::<MsgEntry>(), count.min(AT_ONCE))
            };
            for entry in entries {
                self.take(entry.context, entry.len, None, events);
            }
            if count < AT_ONCE {
                break;
            }
        }
        self.flush();
        events.append(&mut self.noted);
    }

    /// Takes the error that the completion queue has.
    fn take_error(&mut self, events: &mut Vec<Event>) {
        // SAFETY: zeros are an entry, without room for the provider's own data.
        let mut entry: CqErrEntry = unsafe { core::mem::zeroed() };
        // SAFETY: the queue is open.
        let read = unsafe {
            let read = (*(*self.open.cq.raw()).ops).readerr;
            read(self.open.cq.raw(), &raw mut entry, 0)
        };
        if read == 1 {
            self.take(entry.op_context, 0, Some(entry.err), events);
        }
    }

    /// An operation is over.
    fn take(
        &mut self,
        context: *mut c_void,
        len: usize,
        errno: Option<i32>,
        events: &mut Vec<Event>,
    ) {
        let Some(operation) = NonNull::new(context.cast::<Operation>()) else { return };
        // SAFETY: contexts are operations, and libfabric has done with this one.
        let kind = unsafe { self.open.operations.end(operation) };
        match (&kind, errno) {
            (&Kind::Receive(number), None) => {
                events.push(Event::Frame(Lent { arena: self.open.awaited.clone(), number, len }));
            }
            (&Kind::Receive(number), Some(_)) => self.unposted.push(number),
            (&Kind::Send(buffer, to), errno) => {
                self.free.push(buffer);
                if let Some(errno) = errno {
                    self.noted.push(Event::Failed(to, errno));
                }
            }
            _ => self.note_end(&kind, errno),
        }
    }

    /// Has another frame awaited where that one came.
    pub fn give_back(&mut self, frame: Lent) {
        self.unposted.push(frame.number);
        if self.unposted.len() >= AT_ONCE {
            self.post_receives();
        }
    }

    fn post_receives(&mut self) {
        while let Some(number) = self.unposted.pop() {
            let operation = self.open.operations.begin(Kind::Receive(number));
            // SAFETY: the buffer is not lent, and stays until the operation is over.
            let result = unsafe {
                let (ep, start) = (self.open.ep.raw(), self.open.awaited.buffer(number).cast());
                let (len, context) = (self.open.awaited.each, operation.as_ptr().cast());
                ((*(*ep).msg).recv)(ep, start, len, self.awaited_desc, ANY, context)
            };
            if result != 0 {
                // SAFETY: libfabric has not taken it.
                unsafe { self.open.operations.end(operation) };
                self.unposted.push(number);
                return;
            }
        }
    }

    /// Hands over what the provider had no room for, as far as it has by now.
    pub fn flush(&mut self) {
        self.post_receives();
        if self.waiting.is_empty() {
            return;
        }
        let mut all = core::mem::take(&mut self.waiting);
        all.retain(|_, waiting| {
            while let Some(first) = waiting.front() {
                let is_taken = match *first {
                    Waiting::Frame(buffer, len, to) => self.try_send(buffer, len, to),
                    Waiting::Move(operation) => self.try_move(operation),
                };
                if !is_taken {
                    return true;
                }
                waiting.pop_front();
            }
            false
        });
        self.waiting = all;
    }

    /// The peers to which something waits to be sent.
    pub fn stuck(&self) -> impl Iterator<Item = Peer> {
        self.waiting.keys().filter_map(|to| *to)
    }

    /// Whether something waits to be sent to a peer.
    pub fn is_stuck(&self, peer: Peer) -> bool {
        self.waiting.contains_key(&Some(peer))
    }

    /// A peer is gone: what waits to be sent there is not.
    pub fn give_up(&mut self, peer: Peer) {
        for waiting in self.waiting.remove(&Some(peer)).into_iter().flatten() {
            match waiting {
                Waiting::Frame(buffer, ..) => self.free.push(buffer),
                Waiting::Move(operation) => {
                    // SAFETY: libfabric has not seen it.
                    if let Kind::Out(name, _) = unsafe { self.open.operations.end(operation) } {
                        self.noted.push(Event::Moved(name, false));
                    }
                }
            }
        }
    }

    /// Whether something waits for room at the provider's, which its descriptor does not tell of.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty() || !self.noted.is_empty()
    }

    /// A thread is about to sleep on the descriptor; false if it is to look once more instead.
    pub fn about_to_sleep(&self) -> bool {
        let mut fid = self.open.cq.fid();
        // SAFETY: both objects are open.
        unsafe {
            let trywait = (*(*self.open.fabric.raw()).ops).trywait;
            trywait(self.open.fabric.raw(), &raw mut fid, 1) == 0
        }
    }

    fn registered(
        &mut self,
        start: *mut u8,
        len: usize,
    ) -> Result<(Object<FidMr>, *mut c_void), Error> {
        let access = SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE;
        let key = if self.limits.gives_keys { 0 } else { self.next_key };
        self.next_key += 1;
        let mut region = null_mut();
        // SAFETY: the memory is the endpoint's, or the program's for as long as it is registered.
        let (result, region) = unsafe {
            let (reg, domain) = ((*(*self.open.domain.raw()).mr).reg, self.open.domain.fid());
            let start = start.cast_const().cast();
            let made = reg(domain, start, len, access, 0, key, 0, &raw mut region, null_mut());
            (made, if made == 0 { Object::new(region) } else { None })
        };
        let region = region.ok_or_else(|| self.failed("fi_mr_reg", result))?;
        // SAFETY: it is open.
        let desc = unsafe { (*region.raw()).mem_desc };
        Ok((region, desc))
    }

    /// Registers memory, where the provider asks for that; what the registration is called.
    ///
    /// # Errors
    /// [`Error::Call`]: a limit of the system's, as a rule.
    pub fn register(&mut self, memory: &Memory) -> Result<Option<u64>, Error> {
        if !self.limits.registers {
            return Ok(None);
        }
        let key = self.next_key;
        let start = core::ptr::with_exposed_provenance_mut(memory.address(0) as usize);
        let (region, _) = self.registered(start, memory.len())?;
        self.open.regions.insert(key, region);
        Ok(Some(key))
    }

    /// Takes [`Endpoint::register`] back. Nothing moves there any more.
    pub fn deregister(&mut self, key: u64) {
        self.open.regions.remove(&key);
    }
}

/// `struct fi_cq_msg_entry`.
#[repr(C)]
struct MsgEntry {
    context: *mut c_void,
    flags: u64,
    len: usize,
}

fn failed(library: &Library, provider: &str, call: &'static str, errno: c_int) -> Error {
    let why = library.explain(errno);
    Error::Call { provider: provider.to_owned(), call, errno: errno.abs(), why }
}

/// A completion queue, and its descriptor.
///
/// # Safety
/// The domain is open.
unsafe fn open_cq(
    domain: &Object<FidDomain>,
    size: usize,
    wait_obj: c_int,
) -> Result<(Object<FidCq>, Option<RawFd>), c_int> {
    let mut attr = CqAttr {
        size,
        flags: 0,
        format: CQ_FORMAT_MSG,
        wait_obj,
        signaling_vector: 0,
        wait_cond: 0,
        wait_set: null_mut(),
    };
    let mut cq = null_mut();
    // SAFETY: the caller's to vouch for; the queue is open from then on.
    unsafe {
        let open = (*(*domain.raw()).ops).cq_open;
        let result = open(domain.raw(), &raw mut attr, &raw mut cq, null_mut());
        if result != 0 {
            return Err(result);
        }
        let cq = Object::new(cq).ok_or(libc::ENOMEM)?;
        if wait_obj != WAIT_FD {
            return Ok((cq, None));
        }
        let mut descriptor: c_int = -1;
        let ops = (*cq.fid()).ops;
        let result = ((*ops).control)(cq.fid(), GETWAIT, (&raw mut descriptor).cast());
        if result == 0 && descriptor >= 0 { Ok((cq, Some(descriptor))) } else { Err(result) }
    }
}

/// An endpoint's own address.
fn address_of(ep: &Object<FidEp>) -> Result<Box<[u8]>, c_int> {
    let mut room = [0u8; 256];
    let mut len = room.len();
    // SAFETY: the endpoint is open, and the room as long as it says.
    let result = unsafe {
        let getname = (*(*ep.raw()).cm).getname;
        getname(ep.fid(), room.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(result);
    }
    room.get(..len).map(Box::from).ok_or(libc::ENAMETOOLONG)
}
