//! The connection manager: identifiers and what happens to them.

use crate::api::{Api, Error, done};
use crate::live;
use crate::sys::*;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Where events of identifiers arrive.
#[derive(Debug)]
pub struct Events {
    api: &'static Api,
    raw: *mut rdma_event_channel,
}

// SAFETY: the library may be called by any thread.
unsafe impl Send for Events {}
// SAFETY: as above.
unsafe impl Sync for Events {}

/// Which numbers an identifier's port is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// Connections of queue pairs.
    Connections,
    /// Questions, each with one answer, without a connection.
    Questions,
}

/// What has happened to an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The address is known, and the device.
    AddressResolved,
    /// The route is known.
    RouteResolved,
    /// The far side asks: a request for a connection, or a question.
    Request,
    /// The far side accepts; the pair is to be connected, and [`Id::establish`] called.
    Response,
    /// It is a connection; or, of a question: the answer.
    Established,
    /// The far side refuses, for the library's reason with that number.
    Rejected(i32),
    /// The far side does not answer, or cannot be found.
    Unreachable,
    /// The connection has ended.
    Disconnected,
    /// The device goes away.
    DeviceRemoved,
    /// Of no interest.
    Other,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// What has happened.
    pub kind: EventKind,
    /// What the identifier was named; of a request, the identifier that listens.
    pub name: u64,
    /// The identifier of a request.
    pub id: Option<Id>,
    /// What the far side has said with it.
    pub said: Box<[u8]>,
}

impl Events {
    /// A new one, whose descriptor does not block.
    ///
    /// # Errors
    /// [`Error`]: no library, no NIC for RDMA, or no right to use one.
    pub fn new() -> Result<Arc<Events>, Error> {
        let api = Api::get()?;
        // SAFETY: there are no conditions.
        let raw = unsafe { (api.rdma_create_event_channel)() };
        if raw.is_null() {
            return Err(Error::last("rdma_create_event_channel"));
        }
        let events = Arc::new(Events { api, raw });
        set_nonblocking(events.descriptor())?;
        Ok(events)
    }

    /// What can be polled: readable when there is an event.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: it exists.
        unsafe { (*self.raw).fd }
    }

    /// Takes an event, if there is one. One thread at a time: an identifier must not be dropped between an event of its own and
    /// what is done about it.
    pub fn take(self: &Arc<Events>) -> Option<Event> {
        let mut raw: *mut rdma_cm_event = core::ptr::null_mut();
        // SAFETY: it exists; where it returns 0, the result is an event until that is acknowledged, and its identifiers
        // exist that long.
        unsafe {
            if (self.api.rdma_get_cm_event)(self.raw, &mut raw) != 0 {
                return None;
            }
            let event = &*raw;
            let is_request = event.event == value::RDMA_CM_EVENT_CONNECT_REQUEST;
            let kind = kind(event.event, event.status);
            // Both kinds of parameters begin with this.
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
        // SAFETY: identifiers hold on to it, so there is none; this is its last use.
        unsafe { (self.api.rdma_destroy_event_channel)(self.raw) };
    }
}

/// An identifier: one end of a connection that is being made, is there, or is gone; or a place to listen at.
#[derive(Debug)]
pub struct Id {
    raw: *mut rdma_cm_id,
    events: Arc<Events>,
}

// SAFETY: the library may be called by any thread, with the same identifier at once.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

/// How long the system looks for an address or a route, in milliseconds.
const RESOLVE_MS: c_int = 5000;

impl Id {
    /// A new one; events name it so.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn new(events: &Arc<Events>, space: Space, name: u64) -> Result<Id, Error> {
        let mut raw = core::ptr::null_mut();
        let space = match space {
            Space::Connections => value::RDMA_PS_TCP,
            Space::Questions => value::RDMA_PS_UDP,
        };
        // SAFETY: the channel exists; the result is written if it returns 0.
        let made = unsafe {
            (events.api.rdma_create_id)(events.raw, &mut raw, name as *mut c_void, space)
        };
        done("rdma_create_id", made)?;
        live::IDS.more();
        Ok(Id { raw, events: events.clone() })
    }

    /// # Safety
    /// A new request's identifier.
    unsafe fn adopt(events: &Arc<Events>, raw: *mut rdma_cm_id) -> Id {
        live::IDS.more();
        Id { raw, events: events.clone() }
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.events.api
    }

    /// Has events name it so from now on. For the thread that takes them.
    pub fn rename(&self, name: u64) {
        // SAFETY: it exists; the field is the program's.
        unsafe { (*self.raw).context = name as *mut c_void };
    }

    /// The device to which it is bound, and the device's port.
    pub(crate) fn bound(&self) -> Option<(*mut ibv_context, u8)> {
        // SAFETY: it exists.
        let (context, port) = unsafe { ((*self.raw).verbs, (*self.raw).port_num) };
        (!context.is_null()).then_some((context, port.max(1)))
    }

    /// Binds it to an address of this host's.
    ///
    /// # Errors
    /// [`Error::Call`]: the port is in use, or no NIC for RDMA has the address.
    pub fn bind(&self, at: SocketAddr) -> Result<(), Error> {
        let mut at = Address::of(at);
        // SAFETY: it exists; the address is read during the call.
        done("rdma_bind_addr", unsafe { (self.api().rdma_bind_addr)(self.raw, at.raw()) })
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        // SAFETY: it exists.
        u16::from_be(unsafe { (self.api().rdma_get_src_port)(self.raw) })
    }

    /// The far side's address.
    pub fn peer(&self) -> Option<IpAddr> {
        // SAFETY: it exists; its route has an address, of which the family says what it is.
        unsafe { address(&(*self.raw).route.addr.dst_storage) }
    }

    /// Listens.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn listen(&self, backlog: u16) -> Result<(), Error> {
        // SAFETY: it exists.
        done("rdma_listen", unsafe { (self.api().rdma_listen)(self.raw, backlog.into()) })
    }

    /// Looks for the far side; [`EventKind::AddressResolved`] says that it is found.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn resolve(&self, from: IpAddr, to: SocketAddr) -> Result<(), Error> {
        let (mut from, mut to) = (Address::of((from, 0).into()), Address::of(to));
        // SAFETY: it exists; the addresses are read during the call.
        let begun =
            unsafe { (self.api().rdma_resolve_addr)(self.raw, from.raw(), to.raw(), RESOLVE_MS) };
        done("rdma_resolve_addr", begun)
    }

    /// Looks for the way there; [`EventKind::RouteResolved`] says that it is found.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn resolve_route(&self) -> Result<(), Error> {
        // SAFETY: it exists.
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
            // A message that meets no receive breaks its connection.
            rnr_retry_count: 0,
            srq: 0,
            qp_num: pair,
        }
    }

    /// Asks for a connection of the pair with that number, which allows and does so many reads at a time; or asks a question.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn connect(&self, said: &[u8], reads: u8, pair: u32) -> Result<(), Error> {
        let mut parameters = Id::parameters(said, reads, pair);
        // SAFETY: it exists; what is said is read during the call.
        done("rdma_connect", unsafe { (self.api().rdma_connect)(self.raw, &mut parameters) })
    }

    /// Accepts a request, or answers a question.
    ///
    /// # Errors
    /// [`Error::Call`]: the far side has given up.
    pub fn accept(&self, said: &[u8], reads: u8, pair: u32) -> Result<(), Error> {
        let mut parameters = Id::parameters(said, reads, pair);
        // SAFETY: as above.
        done("rdma_accept", unsafe { (self.api().rdma_accept)(self.raw, &mut parameters) })
    }

    /// After [`EventKind::Response`]: tells the far side that the connection is there.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn establish(&self) -> Result<(), Error> {
        // SAFETY: it exists.
        done("rdma_establish", unsafe { (self.api().rdma_establish)(self.raw) })
    }

    /// Refuses a request.
    pub fn reject(&self, said: &[u8]) {
        // SAFETY: it exists; what is said is read during the call. A failure means that the far side has given up.
        unsafe {
            (self.api().rdma_reject)(self.raw, said.as_ptr().cast(), said.len().min(255) as u8)
        };
    }

    /// Ends the connection; the far side finds [`EventKind::Disconnected`].
    pub fn disconnect(&self) {
        // SAFETY: it exists. A failure means that there is none any more.
        unsafe { (self.api().rdma_disconnect)(self.raw) };
    }

    /// What a pair needs for a state.
    pub(crate) fn attributes_for(&self, state: u32) -> Result<(ibv_qp_attr, u32), Error> {
        let mut mask = 0;
        // SAFETY: it exists; all zero is a value of the structure, of which the state is read and the rest is filled in.
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
        // SAFETY: it exists, and this is its last use. Events are acknowledged when they are taken, so it waits for nothing.
        unsafe { (self.api().rdma_destroy_id)(self.raw) };
        live::IDS.fewer();
    }
}

/// An address as the system wants it.
struct Address(libc::sockaddr_storage);

impl Address {
    fn of(at: SocketAddr) -> Address {
        // SAFETY: all zero is a value of the structure.
        let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
        let place = (&raw mut storage).cast::<u8>();
        match at {
            SocketAddr::V4(at) => {
                // SAFETY: as above.
                let mut raw: libc::sockaddr_in = unsafe { core::mem::zeroed() };
                raw.sin_family = libc::AF_INET as u16;
                raw.sin_port = at.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
                // SAFETY: the storage has room for, and the alignment of, every kind of address.
                unsafe { place.cast::<libc::sockaddr_in>().write(raw) };
            }
            SocketAddr::V6(at) => {
                // SAFETY: as above.
                let mut raw: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as u16;
                raw.sin6_port = at.port().to_be();
                raw.sin6_addr.s6_addr = at.ip().octets();
                raw.sin6_scope_id = at.scope_id();
                // SAFETY: as above.
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
            // SAFETY: the family says that it is one of these.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let raw = unsafe { &*place.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(raw.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Has reading from a descriptor never block.
pub(crate) fn set_nonblocking(descriptor: i32) -> Result<(), Error> {
    // SAFETY: the caller's object owns the descriptor.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags < 0 || libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) != 0 {
            return Err(Error::last("fcntl"));
        }
    }
    Ok(())
}
