//! Waits for requests and answers them.

use super::wire::{self, Answer, Request};
use super::{name_of, system, wait_readable};
use crate::connect::childless;
use crate::connect::hub::Hub;
use crate::link::{Attachment, Link, Peer};
use crate::patience::{Deadline, left};
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_ring::Segment;
use sovia_ring::doorbell::is_doorbell;
use sovia_sys::datagram::Name;
use sovia_sys::poll::{self, ppoll};
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, Fd};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::connection::{Acceptor, Step};
use via::error::ConnectError;
use via::{NetAddress, ViAttributes};

/// Maximum number of requesters at one address that have been welcomed and have not sent their request. If one more
/// requester connects, the oldest one is turned away. So a requester fails only if this number of silent requesters
/// connect after it.
const ARRIVALS_MAX: usize = 128;

/// Addresses at which this process waits.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<NetAddress, Arc<ListenAddress>>>);

/// An address at which this process waits.
#[derive(Debug)]
struct ListenAddress {
    listener: Listener,
    arrivals: Mutex<VecDeque<Arrival>>,
    /// Epoll instance: readable when a requester has connected or has sent a message. A thread that waits on the
    /// epoll instance also wakes for requesters that another thread has welcomed.
    epoll: Fd,
    /// Number of threads that wait at the address. The last of these threads to leave closes the listener.
    waiting: AtomicU32,
}

/// A requester that has been welcomed. The requester may be stopped before it sends its request, so no thread of
/// this process waits for this requester alone.
#[derive(Debug)]
struct Arrival {
    socket: Arc<Packets>,
    /// Number of requests that the requester may still send. A second request is allowed if the first names an unknown
    /// link.
    chances: u8,
}

/// Result of reading a requester's next message.
enum ReadOutcome {
    Nothing,
    Request(Incoming),
    /// The requester has left, or its message is invalid.
    Nonsense,
}

impl ListenAddress {
    fn new(name: &Name) -> sovia_sys::Result<ListenAddress> {
        let mut childless = childless::all();
        let listener = Listener::bind(name)?;
        let epoll = Fd::adopt(poll::epoll_create()?);
        poll::epoll_ctl(epoll.raw(), libc::EPOLL_CTL_ADD, listener.raw(), libc::EPOLLIN as u32, 0)?;
        childless.push(listener.raw());
        let arrivals = Mutex::default();
        Ok(ListenAddress { listener, arrivals, epoll, waiting: AtomicU32::new(1) })
    }

    fn arrivals(&self) -> MutexGuard<'_, VecDeque<Arrival>> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a request.
    fn wait(&self, hub: &Hub, until: Deadline) -> Result<Incoming, ConnectError> {
        loop {
            let is_new = self.welcome(hub)?;
            if let Some(incoming) = self.receive(hub) {
                return Ok(incoming);
            }
            if !is_new {
                wait_readable(self.epoll.raw(), until)?;
            } else if left(until) == Some(0) {
                return Err(ConnectError::Timeout);
            }
        }
    }

    /// Welcomes the next requester, or turns it away if it belongs to another user. Returns true if there was a
    /// requester.
    fn welcome(&self, hub: &Hub) -> Result<bool, ConnectError> {
        let socket = match self.listener.accept() {
            Ok(socket) => Arc::new(socket),
            Err(Errno::EAGAIN) => return Ok(false),
            Err(Errno::EINTR | Errno::ECONNABORTED) => return Ok(true),
            Err(e) => return Err(system("accept")(e)),
        };
        let is_ours = socket.peer().is_ok_and(|(_, uid)| uid == hub.uid);
        let welcome = wire::welcome(&hub.token, hub.token_at());
        if !is_ours || socket.send(&welcome, &[hub.engine.doorbell().raw()]).is_err() {
            return Ok(true);
        }
        let mut arrivals = self.arrivals();
        self.watch(libc::EPOLL_CTL_ADD, &socket).map_err(system("epoll_ctl"))?;
        if arrivals.len() == ARRIVALS_MAX
            && let Some(first) = self.remove(&mut arrivals, 0)
        {
            first.turn_away();
        }
        arrivals.push_back(Arrival { socket, chances: 2 });
        Ok(true)
    }

    /// Returns the first request among the messages that have arrived.
    fn receive(&self, hub: &Hub) -> Option<Incoming> {
        let mut arrivals = self.arrivals();
        let mut i = 0;
        while let Some(arrival) = arrivals.get_mut(i) {
            let outcome = arrival.receive(hub);
            if let ReadOutcome::Nothing = outcome {
                i += 1;
                continue;
            }
            self.remove(&mut arrivals, i);
            if let ReadOutcome::Request(incoming) = outcome {
                return Some(incoming);
            }
        }
        None
    }

    /// Removes a requester from the epoll instance. Closing its descriptor would not be enough, because other
    /// descriptors of the socket may exist, here or in a forked child.
    fn remove(&self, arrivals: &mut VecDeque<Arrival>, i: usize) -> Option<Arrival> {
        let arrival = arrivals.remove(i)?;
        // Cannot fail: the socket was added, and only this function removes it.
        let _ = self.watch(libc::EPOLL_CTL_DEL, &arrival.socket);
        Some(arrival)
    }

    fn watch(&self, operation: i32, socket: &Packets) -> sovia_sys::Result<()> {
        poll::epoll_ctl(self.epoll.raw(), operation, socket.raw(), libc::EPOLLIN as u32, 0)
    }
}

impl Drop for ListenAddress {
    fn drop(&mut self) {
        self.arrivals().iter().for_each(Arrival::turn_away);
    }
}

impl Arrival {
    /// Reports to the requester that no thread waits here any more.
    fn turn_away(&self) {
        // An error means that the requester has left.
        let _ = self.socket.send(&Answer::NobodyWaits.write(), &[]);
    }

    /// Receives the requester's next message without waiting.
    fn receive(&mut self, hub: &Hub) -> ReadOutcome {
        let mut buf = [0; wire::MESSAGE_MAX];
        let received = match self.socket.receive(&mut buf) {
            Err(Errno::EAGAIN | Errno::EINTR) => return ReadOutcome::Nothing,
            Ok(received) if received.len > 0 => received,
            Ok(_) | Err(_) => return ReadOutcome::Nonsense,
        };
        self.understand(hub, &buf[..received.len], received.fds).unwrap_or(ReadOutcome::Nonsense)
    }

    fn understand(&mut self, hub: &Hub, message: &[u8], fds: Vec<Fd>) -> Option<ReadOutcome> {
        let request = Request::read(message)?;
        let mut fds = fds.into_iter();
        let link = match (fds.next(), fds.next().filter(is_doorbell)) {
            (Some(segment), Some(doorbell)) if request.token != *hub.token => {
                let segment = Segment::attach(&segment).ok()?;
                let peer = Peer {
                    token: request.token,
                    side: Some(1),
                    socket: Some(self.socket.clone()),
                    doorbell,
                    token_at: request.token_at,
                };
                let link = Arc::new(Link::new(segment, request.link, peer));
                link.set_shared();
                hub.engine.keep(link.clone());
                Some(link)
            }
            (Some(_), _) => return None,
            (None, _) => {
                let mut links = hub.engine.links().into_iter();
                links.find(|l| l.id == request.link && l.peer == request.token && l.is_sound())
            }
        };
        if let Some(link) = link {
            let mut acceptor = Acceptor::new();
            acceptor.step(Step::Take).ok()?;
            let socket = self.socket.clone();
            return Some(ReadOutcome::Request(Incoming { request, link, socket, acceptor }));
        }
        self.socket.send(&Answer::UnknownLink.write(), &[]).ok()?;
        self.chances -= 1;
        (self.chances > 0).then_some(ReadOutcome::Nothing)
    }
}

impl Listeners {
    fn listen_addresses(&self) -> MutexGuard<'_, HashMap<NetAddress, Arc<ListenAddress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens at an address until a request comes. Calls `slice` at the start, and again each time the deadline
    /// that `slice` returned has passed.
    fn request_at(
        &self,
        hub: &Hub,
        address: &NetAddress,
        until: Deadline,
        mut slice: impl FnMut() -> Result<Deadline, ConnectError>,
    ) -> Result<Incoming, ConnectError> {
        let goes_on =
            |error: &ConnectError| *error == ConnectError::Timeout && left(until) != Some(0);
        let listen_address = loop {
            match self.enter(hub.uid, address, slice()?) {
                Err(error) if goes_on(&error) => {}
                entered => break entered?,
            }
        };
        let result = loop {
            match slice().and_then(|end| listen_address.wait(hub, end)) {
                Err(error) if goes_on(&error) => {}
                outcome => break outcome,
            }
        };
        self.leave(address, listen_address);
        result
    }

    fn enter(
        &self,
        uid: u32,
        address: &NetAddress,
        until: Deadline,
    ) -> Result<Arc<ListenAddress>, ConnectError> {
        const PAUSE: u64 = 1_000_000;
        let name = name_of(uid, address)?;
        loop {
            let mut listen_addresses = self.listen_addresses();
            if let Some(listen_address) = listen_addresses.get(address) {
                listen_address.waiting.fetch_add(1, Ordering::Relaxed);
                return Ok(listen_address.clone());
            }
            match ListenAddress::new(&name) {
                Ok(listen_address) => {
                    let listen_address = Arc::new(listen_address);
                    listen_addresses.insert(address.clone(), listen_address.clone());
                    return Ok(listen_address);
                }
                Err(Errno::EADDRINUSE) => drop(listen_addresses),
                Err(e) => return Err(system("bind or epoll")(e)),
            }
            // The address is in use. Perhaps only a child holds a socket with this name, which its parent has shut
            // down. (A child that was not made by libc's `fork` keeps such sockets until it executes a program.) A
            // connect to a socket that was shut down is refused.
            if let Ok(_) | Err(Errno::EAGAIN) = Packets::connect(&name) {
                if self.listen_addresses().contains_key(address) {
                    continue;
                }
                return Err(ConnectError::Resource("another process waits at this address"));
            }
            if left(until) == Some(0) {
                return Err(ConnectError::Timeout);
            }
            let _ = ppoll(&mut [], Some(left(until).unwrap_or(PAUSE).min(PAUSE)), None);
        }
    }

    fn leave(&self, address: &NetAddress, listen_address: Arc<ListenAddress>) {
        let mut listen_addresses = self.listen_addresses();
        let mut childless = childless::all();
        if listen_address.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            // The shutdown refuses new requesters, even if a child holds a copy of the file descriptor. The loop
            // turns away the requesters in the backlog.
            listen_address.listener.shutdown();
            while listen_address.listener.accept().is_ok() {}
            childless.retain(|&fd| fd != listen_address.listener.raw());
            listen_addresses.remove(address);
        }
        // Close the socket while the locks of `listen_addresses` and `childless` are held. Otherwise a thread that
        // enters this address would find the name in use, or a forked child would keep the socket.
        drop(listen_address);
    }
}

#[cfg(test)]
impl Listeners {
    /// Returns the number of threads that wait at an address.
    pub(crate) fn waiting_at(&self, address: &NetAddress) -> u32 {
        self.listen_addresses()
            .get(address)
            .map_or(0, |listen_address| listen_address.waiting.load(Ordering::Relaxed))
    }
}

/// A request that waits for its answer. If this value is dropped without an answer, the request is rejected.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) request: Request,
    link: Arc<Link>,
    socket: Arc<Packets>,
    acceptor: Acceptor,
}

impl Incoming {
    /// Waits for a request at `local`.
    pub(crate) fn wait(
        hub: &Hub,
        local: &NetAddress,
        until: Deadline,
    ) -> Result<Incoming, ConnectError> {
        hub.listeners.request_at(hub, local, until, || Ok(until))
    }

    /// Waits for a request at `local`. Calls `slice` at the start, and again each time the deadline that `slice`
    /// returned has passed. An error of `slice` ends the wait. The process listens at the address all the time.
    pub(crate) fn wait_in_slices(
        hub: &Hub,
        local: &NetAddress,
        until: Deadline,
        mut slice: impl FnMut() -> Result<u64, ConnectError>,
    ) -> Result<Incoming, ConnectError> {
        hub.listeners.request_at(hub, local, until, || slice().map(Some))
    }

    /// Checks if a VI with the attributes `ours` can accept the request.
    pub(crate) fn compare(&mut self, ours: &ViAttributes) -> Result<(), ConnectError> {
        self.acceptor.compare(ours, &self.request.attributes)
    }

    /// Takes this side's end of the requested VI. Returns `None` if the requester has withdrawn its request.
    pub(crate) fn take(&mut self) -> Option<Attachment> {
        let taken = Attachment::accept(&self.link, self.request.vi);
        if taken.is_none() {
            self.acceptor.step(Step::Withdraw).ok()?;
        }
        taken
    }

    /// Accepts the request and notifies the requester.
    pub(crate) fn accept(mut self, attributes: ViAttributes) -> Result<(), ConnectError> {
        let sent = self.answer(&Answer::Accepted(attributes));
        let step = if sent.is_ok() { Step::Accept } else { Step::Lose };
        match (self.acceptor.step(step), sent) {
            (Ok(()), Ok(())) => Ok(()),
            _ => Err(ConnectError::Timeout),
        }
    }

    fn answer(&self, answer: &Answer) -> sovia_sys::Result<()> {
        self.socket.send(&answer.write(), &[])
    }
}

impl Drop for Incoming {
    /// Refuses the request, unless it has been answered.
    fn drop(&mut self) {
        let answer = match self.acceptor.refuse() {
            None => return,
            Some(ConnectError::Reliability) => Answer::Reliability,
            Some(ConnectError::MaxTransferSize) => Answer::MaxTransferSize,
            Some(_) => Answer::Rejected,
        };
        // An error means that the requester has given up.
        let _ = self.answer(&answer);
    }
}
