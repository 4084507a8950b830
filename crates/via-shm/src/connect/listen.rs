//! Waiting for requests, and answering them.

use super::wire::{self, Answer, Request};
use super::{Deadline, left, name_of, receive, system, wait_readable};
use crate::Segment;
use crate::connect::hub::Hub;
use crate::connect::link::{Attachment, Link, Peer};
use crate::doorbell::is_doorbell;
use core::sync::atomic::{AtomicU32, Ordering};
use sovia_sys::poll::ppoll;
use sovia_sys::seqpacket::{Listener, Packets};
use sovia_sys::{Errno, clock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::connection::{Acceptor, Step};
use via::error::ConnectError;
use via::{NetAddress, ViAttributes};

/// How long a requester may take to state its request once it has been welcomed (nanoseconds). Its
/// call does so at once, but on a busy machine it may not run for some tenths of a second, and one
/// that is turned away has its request refused.
const PATIENCE: u64 = 2_000_000_000;

/// The addresses at which this process waits.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<NetAddress, Arc<Place>>>);

/// One of them.
#[derive(Debug)]
struct Place {
    listener: Listener,
    /// Threads that wait here; the last to leave closes it.
    waiters: AtomicU32,
}

impl Listeners {
    fn places(&self) -> MutexGuard<'_, HashMap<NetAddress, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens at an address for as long as `wait` takes.
    fn at<R>(
        &self,
        uid: u32,
        address: &NetAddress,
        wait: impl FnOnce(&Listener) -> Result<R, ConnectError>,
    ) -> Result<R, ConnectError> {
        let place = self.enter(uid, address)?;
        let result = wait(&place.listener);
        let mut places = self.places();
        if place.waiters.fetch_sub(1, Ordering::Relaxed) == 1 {
            // Requests that nobody has accepted yet are refused by this.
            places.remove(address);
        }
        // Closed before another thread looks for the address: it would find the name taken.
        drop(place);
        drop(places);
        result
    }

    fn enter(&self, uid: u32, address: &NetAddress) -> Result<Arc<Place>, ConnectError> {
        // The name may have been ours a moment ago: a child that is just being started keeps its
        // parent's descriptors until it executes its program.
        const PAUSE: u64 = 1_000_000;
        const PAUSES: u32 = 200;
        let name = name_of(uid, address)?;
        for _ in 0..PAUSES {
            let mut places = self.places();
            if let Some(place) = places.get(address) {
                place.waiters.fetch_add(1, Ordering::Relaxed);
                return Ok(place.clone());
            }
            match Listener::bind(&name) {
                Ok(listener) => {
                    let place = Arc::new(Place { listener, waiters: AtomicU32::new(1) });
                    places.insert(address.clone(), place.clone());
                    return Ok(place);
                }
                Err(Errno::EADDRINUSE) => drop(places),
                Err(e) => return Err(system("bind")(e)),
            }
            let _ = ppoll(&mut [], Some(PAUSE), None);
        }
        Err(ConnectError::Resource("another process waits at this address"))
    }
}

/// A request that waits for its answer. Dropped without one, it is rejected.
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
        hub.listeners.at(hub.uid, local, |listener| {
            loop {
                match listener.accept() {
                    Ok(socket) => {
                        if let Some(incoming) = Incoming::admit(hub, socket) {
                            return Ok(incoming);
                        }
                    }
                    Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNABORTED) => {
                        wait_readable(listener.raw(), until)?;
                    }
                    Err(e) => return Err(system("accept")(e)),
                }
                if left(until) == Some(0) {
                    return Err(ConnectError::Timeout);
                }
            }
        })
    }

    /// Hears a requester out. One that is of another user, or makes no sense, is turned away.
    fn admit(hub: &Hub, socket: Packets) -> Option<Incoming> {
        if socket.peer().ok()?.1 != hub.uid {
            return None;
        }
        let socket = Arc::new(socket);
        let doorbell = hub.engine.doorbell().raw();
        socket.send(&wire::welcome(&hub.token, hub.token_at()), &[doorbell]).ok()?;
        let until = Some(clock::now_ns() + PATIENCE);
        // Once more, for a requester that named a link which is no more.
        for _ in 0..2 {
            let mut buf = [0; wire::MESSAGE_MAX];
            let received = receive(&socket, &mut buf, until).ok()??;
            let request = Request::read(&buf[..received.len])?;
            let mut fds = received.fds.into_iter();
            let link = match (fds.next(), fds.next().filter(is_doorbell)) {
                (Some(segment), Some(doorbell)) if request.token != *hub.token => {
                    let segment = Segment::attach(&segment).ok()?;
                    let peer = Peer {
                        token: request.token,
                        side: Some(1),
                        socket: Some(socket.clone()),
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
                return Some(Incoming { request, link, socket, acceptor });
            }
            socket.send(&Answer::UnknownLink.write(), &[]).ok()?;
        }
        None
    }

    /// Whether a VI with such attributes can accept it.
    pub(crate) fn compare(&mut self, ours: &ViAttributes) -> Result<(), ConnectError> {
        self.acceptor.compare(ours, &self.request.attributes)
    }

    /// Takes this side's end of the requested VI. `None` if the requester has given up.
    pub(crate) fn take(&mut self) -> Option<Attachment> {
        let taken = Attachment::accept(&self.link, self.request.vi);
        if taken.is_none() {
            self.acceptor.step(Step::Withdraw).ok()?;
        }
        taken
    }

    /// Tells the requester that it is accepted.
    pub(crate) fn accept(mut self, attributes: ViAttributes) -> Result<(), ConnectError> {
        let told = self.answer(&Answer::Accepted(attributes));
        let step = if told.is_ok() { Step::Accept } else { Step::Lose };
        match (self.acceptor.step(step), told) {
            (Ok(()), Ok(())) => Ok(()),
            _ => Err(ConnectError::Timeout),
        }
    }

    fn answer(&self, answer: &Answer) -> sovia_sys::Result<()> {
        self.socket.send(&answer.write(), &[])
    }
}

impl Drop for Incoming {
    /// Tells the requester that it is refused, unless it has an answer.
    fn drop(&mut self) {
        let answer = match self.acceptor.refuse() {
            None => return,
            Some(ConnectError::Reliability) => Answer::Reliability,
            Some(ConnectError::MaxTransferSize) => Answer::MaxTransferSize,
            Some(_) => Answer::Rejected,
        };
        // Whoever has given up need not know.
        let _ = self.answer(&answer);
    }
}
