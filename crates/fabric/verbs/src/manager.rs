//! The connection manager: identifiers and their events.

use crate::api::{Api, Error, done};
use crate::live;
use crate::sys::*;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// A channel that delivers events of identifiers.
#[derive(Debug)]
pub struct Events {
    api: &'static Api,
    raw: *mut rdma_event_channel,
}

// SAFETY: librdmacm is thread-safe: any threads may call it with the same channel at once.
unsafe impl Send for Events {}
// SAFETY: librdmacm is thread-safe: any threads may call it with the same channel at once.
unsafe impl Sync for Events {}

/// Port space of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Connections between queue pairs.
    Connections,
    /// Questions with one answer each, without a connection.
    Questions,
}

/// Kind of an event of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The library has found the address and the device.
    AddressResolved,
    /// The library has found the route.
    RouteResolved,
    /// The peer requests a connection or asks a question.
    Request,
    /// The peer accepts. The program must now connect its queue pair and call [`Id::establish`].
    Response,
    /// The connection is established; for a question: the answer has come.
    Established,
    /// The peer refuses, for the librdmacm reason with this number.
    Rejected(i32),
    /// The peer does not answer or cannot be found.
    Unreachable,
    /// The connection has ended.
    Disconnected,
    /// The device is being removed.
    DeviceRemoved,
    /// Any other event, which the program can ignore.
    Other,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Name of the identifier. For a request: the name of the listening identifier.
    pub name: u64,
    /// New identifier of a request.
    pub id: Option<Id>,
    /// Private data that the peer has sent with the event.
    pub said: Box<[u8]>,
}

impl Events {
    /// Makes an event channel with a non-blocking descriptor.
    ///
    /// # Errors
    /// [`Error`]: a library is missing, there is no RDMA NIC, or the user may not use one.
    pub fn new() -> Result<Arc<Events>, Error> {
        let api = Api::get()?;
        // SAFETY: the function has no preconditions.
        let raw = unsafe { (api.rdma_create_event_channel)() };
        if raw.is_null() {
            return Err(Error::last("rdma_create_event_channel"));
        }
        let events = Arc::new(Events { api, raw });
        set_nonblocking(events.descriptor())?;
        Ok(events)
    }

    /// Returns a descriptor for poll. The descriptor is readable while an event waits.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: the channel exists until `self` is dropped.
        unsafe { (*self.raw).fd }
    }

    /// Takes an event, if there is one. Only one thread may take events: a program must not drop an identifier between
    /// taking an event of this identifier and handling the event.
    pub fn take(self: &Arc<Events>) -> Option<Event> {
        let mut raw: *mut rdma_cm_event = core::ptr::null_mut();
        // SAFETY: the channel exists until `self` is dropped. If the call returns 0, `raw` points to an event, which is
        // valid with its identifiers until the event is acknowledged.
        unsafe {
            if (self.api.rdma_get_cm_event)(self.raw, &mut raw) != 0 {
                return None;
            }
            let event = &*raw;
            let is_request = event.event == value::RDMA_CM_EVENT_CONNECT_REQUEST;
            let kind = kind(event.event, event.status);
            // Both kinds of parameters begin with these two fields.
            let said = match (event.param.private_data, event.param.private_data_len) {
                (data, len) if !data.is_null() && len > 0 => {
                    core::slice::from_raw_parts(data.cast::<u8>(), usize::from(len)).into()
                }
                _ => Box::default(),
            };
            let name = (*event.id).context as u64;
            let id = is_request.then(|| Id::adopt(self, event.id));
            (self.api.rdma_ack_cm_event)(raw);
            Some(Event { kind, name, id, said })
        }
    }
}

fn kind(event: u32, status: i32) -> EventKind {
    match event {
        value::RDMA_CM_EVENT_ADDR_RESOLVED => EventKind::AddressResolved,
        value::RDMA_CM_EVENT_ROUTE_RESOLVED => EventKind::RouteResolved,
        value::RDMA_CM_EVENT_CONNECT_REQUEST => EventKind::Request,
        value::RDMA_CM_EVENT_CONNECT_RESPONSE => EventKind::Response,
        value::RDMA_CM_EVENT_ESTABLISHED => EventKind::Established,
        value::RDMA_CM_EVENT_REJECTED => EventKind::Rejected(status),
        value::RDMA_CM_EVENT_ADDR_ERROR
        | value::RDMA_CM_EVENT_ROUTE_ERROR
        | value::RDMA_CM_EVENT_CONNECT_ERROR
        | value::RDMA_CM_EVENT_UNREACHABLE => EventKind::Unreachable,
        value::RDMA_CM_EVENT_DISCONNECTED => EventKind::Disconnected,
        value::RDMA_CM_EVENT_DEVICE_REMOVAL => EventKind::DeviceRemoved,
        _ => EventKind::Other,
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // SAFETY: each identifier holds a reference to its channel, so no identifier is left. This is the channel's
        // last use.
        unsafe { (self.api.rdma_destroy_event_channel)(self.raw) };
    }
}

/// An identifier: one end of a connection (new, established or ended), or a listener.
#[derive(Debug)]
pub struct Id {
    raw: *mut rdma_cm_id,
    events: Arc<Events>,
}

// SAFETY: librdmacm is thread-safe: any threads may call it with the same identifier at once.
unsafe impl Send for Id {}
// SAFETY: librdmacm is thread-safe: any threads may call it with the same identifier at once.
unsafe impl Sync for Id {}

/// Time limit of the search for an address or a route, in milliseconds.
const RESOLVE_MS: c_int = 5000;

impl Id {
    /// Makes an identifier. Its events report `name`.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(events: &Arc<Events>, space: Space, name: u64) -> Result<Id, Error> {
        let mut raw = core::ptr::null_mut();
        let space = match space {
            Space::Connections => value::RDMA_PS_TCP,
            Space::Questions => value::RDMA_PS_UDP,
        };
        // SAFETY: the channel exists. A call that returns 0 has written `raw`.
        let made = unsafe {
            (events.api.rdma_create_id)(events.raw, &mut raw, name as *mut c_void, space)
        };
        done("rdma_create_id", made)?;
        live::IDS.more();
        Ok(Id { raw, events: events.clone() })
    }

    /// Takes ownership of a new request's identifier.
    ///
    /// # Safety
    /// `raw` must be the identifier of a new request, and no other `Id` may own it.
    unsafe fn adopt(events: &Arc<Events>, raw: *mut rdma_cm_id) -> Id {
        live::IDS.more();
        Id { raw, events: events.clone() }
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.events.api
    }

    /// Makes later events report `name`. Only the thread that takes events may call this function.
    pub fn rename(&self, name: u64) {
        // SAFETY: the identifier exists until `self` is dropped. The library leaves the field `context` to the program.
        unsafe { (*self.raw).context = name as *mut c_void };
    }

    /// Returns the device to which this identifier is bound, and the port's number.
    pub(crate) fn bound(&self) -> Option<(*mut ibv_context, u8)> {
        // SAFETY: the identifier exists until `self` is dropped.
        let (context, port) = unsafe { ((*self.raw).verbs, (*self.raw).port_num) };
        (!context.is_null()).then_some((context, port.max(1)))
    }

    /// Binds this identifier to an address of this host.
    ///
    /// # Errors
    /// [`Error::Call`]: the port is in use, or no RDMA NIC has the address.
    pub fn bind(&self, at: SocketAddr) -> Result<(), Error> {
        let mut at = Address::of(at);
        // SAFETY: the identifier exists until `self` is dropped. The library reads the address only during the call.
        done("rdma_bind_addr", unsafe { (self.api().rdma_bind_addr)(self.raw, at.raw()) })
    }

    /// Returns the local port.
    pub fn port(&self) -> u16 {
        // SAFETY: the identifier exists until `self` is dropped.
        u16::from_be(unsafe { (self.api().rdma_get_src_port)(self.raw) })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> Option<IpAddr> {
        // SAFETY: the identifier exists until `self` is dropped. The address in its route is a socket address, whose
        // family gives its type.
        unsafe { address(&(*self.raw).route.addr.dst_storage) }
    }

    /// Begins to listen for requests.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn listen(&self, backlog: u16) -> Result<(), Error> {
        // SAFETY: the identifier exists until `self` is dropped.
        done("rdma_listen", unsafe { (self.api().rdma_listen)(self.raw, backlog.into()) })
    }

    /// Begins to look for the peer. [`EventKind::AddressResolved`] reports success.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn resolve(&self, from: IpAddr, to: SocketAddr) -> Result<(), Error> {
        let (mut from, mut to) = (Address::of((from, 0).into()), Address::of(to));
        // SAFETY: the identifier exists until `self` is dropped. The library reads the addresses only during the call.
        let begun =
            unsafe { (self.api().rdma_resolve_addr)(self.raw, from.raw(), to.raw(), RESOLVE_MS) };
        done("rdma_resolve_addr", begun)
    }

    /// Begins to look for the route to the peer. [`EventKind::RouteResolved`] reports success.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn resolve_route(&self) -> Result<(), Error> {
        // SAFETY: the identifier exists until `self` is dropped.
        let begun = unsafe { (self.api().rdma_resolve_route)(self.raw, RESOLVE_MS) };
        done("rdma_resolve_route", begun)
    }

    fn parameters(said: &[u8], reads: u8, pair: u32) -> rdma_conn_param {
        rdma_conn_param {
            private_data: said.as_ptr().cast(),
            private_data_len: said.len().min(255) as u8,
            responder_resources: reads,
            initiator_depth: reads,
            flow_control: 1,
            retry_count: 7,
            // With 0 retries, a message without a posted receive breaks its connection.
            rnr_retry_count: 0,
            srq: 0,
            qp_num: pair,
        }
    }

    /// Requests a connection for the queue pair with the number `pair`, or asks a question. `reads` is the largest
    /// number of RDMA reads in progress in each direction.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn connect(&self, said: &[u8], reads: u8, pair: u32) -> Result<(), Error> {
        let mut parameters = Id::parameters(said, reads, pair);
        // SAFETY: the identifier exists until `self` is dropped. The library reads the private data only during the
        // call.
        done("rdma_connect", unsafe { (self.api().rdma_connect)(self.raw, &mut parameters) })
    }

    /// Accepts a request, or answers a question.
    ///
    /// # Errors
    /// [`Error::Call`]: the peer has given up.
    pub fn accept(&self, said: &[u8], reads: u8, pair: u32) -> Result<(), Error> {
        let mut parameters = Id::parameters(said, reads, pair);
        // SAFETY: the identifier exists until `self` is dropped. The library reads the private data only during the
        // call.
        done("rdma_accept", unsafe { (self.api().rdma_accept)(self.raw, &mut parameters) })
    }

    /// Tells the peer that the connection is established. Call this after [`EventKind::Response`].
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn establish(&self) -> Result<(), Error> {
        // SAFETY: the identifier exists until `self` is dropped.
        done("rdma_establish", unsafe { (self.api().rdma_establish)(self.raw) })
    }

    /// Refuses a request.
    pub fn reject(&self, said: &[u8]) {
        // SAFETY: the identifier exists until `self` is dropped, and the library reads the private data only during the
        // call. The call fails only if the peer has given up.
        unsafe {
            (self.api().rdma_reject)(self.raw, said.as_ptr().cast(), said.len().min(255) as u8)
        };
    }

    /// Ends the connection. The peer gets [`EventKind::Disconnected`].
    pub fn disconnect(&self) {
        // SAFETY: the identifier exists until `self` is dropped. The call fails if the connection has ended already.
        unsafe { (self.api().rdma_disconnect)(self.raw) };
    }

    /// Returns the attributes, with their mask, that bring a queue pair to `state`.
    pub(crate) fn attributes_for(&self, state: u32) -> Result<(ibv_qp_attr, u32), Error> {
        let mut mask = 0;
        // SAFETY: the identifier exists until `self` is dropped. All zeroes are a valid value of the structure. The
        // library reads the state, and fills in the other fields.
        unsafe {
            let mut attributes = MaybeUninit::<ibv_qp_attr>::zeroed().assume_init();
            attributes.qp_state = state;
            let filled = (self.api().rdma_init_qp_attr)(self.raw, &mut attributes, &mut mask);
            done("rdma_init_qp_attr", filled)?;
            Ok((attributes, mask as u32))
        }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the identifier exists, and this is its last use. Every event is acknowledged when it is taken, so the
        // call does not wait.
        unsafe { (self.api().rdma_destroy_id)(self.raw) };
        live::IDS.fewer();
    }
}

/// An address as a C structure.
struct Address(libc::sockaddr_storage);

impl Address {
    fn of(at: SocketAddr) -> Address {
        // SAFETY: all zeroes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let place = (&raw mut storage).cast::<u8>();
        match at {
            SocketAddr::V4(at) => {
                // SAFETY: all zeroes are a valid sockaddr_in.
                let mut raw: libc::sockaddr_in = unsafe { core::mem::zeroed() };
                raw.sin_family = libc::AF_INET as u16;
                raw.sin_port = at.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
                // SAFETY: a sockaddr_storage has the size and alignment for every kind of address.
                unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
            }
            SocketAddr::V6(at) => {
                // SAFETY: all zeroes are a valid sockaddr_in6.
                let mut raw: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as u16;
                raw.sin6_port = at.port().to_be();
                raw.sin6_addr.s6_addr = at.ip().octets();
                raw.sin6_scope_id = at.scope_id();
                // SAFETY: a sockaddr_storage has the size and alignment for every kind of address.
                unsafe { place.cast::<libc::sockaddr_in6>().write(raw) };
            }
        }
        Address(storage)
    }

    fn raw(&mut self) -> *mut libc::sockaddr {
        (&raw mut self.0).cast()
    }
}

fn address(storage: &libc::sockaddr_storage) -> Option<IpAddr> {
    let place = core::ptr::from_ref(storage);
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family is AF_INET, so the storage contains a sockaddr_in.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family is AF_INET6, so the storage contains a sockaddr_in6.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(raw.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Sets O_NONBLOCK on a descriptor.
pub(crate) fn set_nonblocking(descriptor: i32) -> Result<(), Error> {
    // SAFETY: takes numbers only. The caller's object owns the descriptor.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags < 0 || libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) != 0 {
            return Err(Error::last("fcntl"));
        }
    }
    Ok(())
}
