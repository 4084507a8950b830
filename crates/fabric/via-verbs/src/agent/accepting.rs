//! The accepting side of a connection.

use crate::agent::Agent;
use crate::agent::attempt::{refused, rights, system};
use crate::agent::role::{Attempt, Role};
use crate::config::host;
use crate::slot::lock;
use crate::state::{Accepted, Job, Request, ViShared};
use crate::wire::{Hello, Refusal, Welcome};
use sovia_verbs::{Error, EventKind, Id};
use std::net::SocketAddr;
use std::sync::Arc;
use via::error::ConnectError;
use via::state::Event as Step;
use via::{NetAddress, ViAttributes, ViState};

impl Agent {
    /// Handles the peer's request for a connection.
    pub(super) fn asked(&mut self, id: Id, said: &[u8]) {
        let Some(hello) = Hello::parse(said) else { return id.reject(&Refusal::NoMatch.bytes()) };
        let Some(ip) = id.peer() else { return id.reject(&Refusal::NoMatch.bytes()) };
        let (name, from) = (self.card.name(), SocketAddr::new(ip, hello.port));
        let remote = NetAddress::new(&host(from), &hello.from);
        id.rename(name);
        if hello.is_peer {
            let fits = |(peer, (attempt, _)): (&u64, &(Attempt, _))| {
                let is_it = attempt.local.discriminator == hello.to && attempt.remote == remote;
                is_it.then_some(*peer)
            };
            let Some(peer) = self.peers.iter().find_map(fits) else {
                return id.reject(&Refusal::NoMatch.bytes());
            };
            let Some((attempt, _)) = self.peers.remove(&peer) else { return };
            let attributes = hello.attributes;
            self.roles.insert(name, (Some(id), Role::Asked(hello, from)));
            return self.meet(name, peer, &attempt, &attributes);
        }
        // Held until the request is in the waiter's slot. So a wait that times out finds either its entry in the list
        // or its request.
        let mut waiters = lock(&self.card.waiters);
        let place = waiters.iter().position(|waiter| waiter.discriminator == hello.to);
        let Some(waiter) = place.map(|place| waiters.remove(place)) else {
            drop(waiters);
            return id.reject(&Refusal::NoMatch.bytes());
        };
        let attributes = hello.attributes;
        self.roles.insert(name, (Some(id), Role::Asked(hello, from)));
        waiter.slot.put(Request {
            card: self.card.clone(),
            name,
            remote,
            attributes,
            refusal: Refusal::Rejected,
            is_answered: false,
        });
    }

    /// Handles a request of a peer for which an attempt of this NIC waits.
    pub(super) fn meet(&mut self, name: u64, peer: u64, attempt: &Attempt, theirs: &ViAttributes) {
        let vi = &attempt.vi;
        let fits = {
            let core = &mut *lock(&vi.core);
            if core.attempt != Some(peer) {
                Err(ConnectError::NoMatch)
            } else {
                let fits = core.attributes.fit(theirs);
                if let Err(error) = &fits {
                    refused(vi, core, error.clone());
                }
                fits
            }
        };
        let refusal = match fits {
            Ok(()) => None,
            Err(ConnectError::Reliability) => Some(Refusal::Reliability),
            Err(ConnectError::MaxTransferSize) => Some(Refusal::MaxTransferSize),
            Err(_) => Some(Refusal::NoMatch),
        };
        if let Some(refusal) = refusal {
            return self.job(Job::Reject { name, refusal });
        }
        if let Err(error) = self.accept_with(name, vi, peer, &mut None) {
            let core = &mut *lock(&vi.core);
            if core.attempt == Some(peer) {
                refused(vi, core, error);
            }
        }
    }

    /// Accepts a request with a VI of the program. If the accept begins, its result is reported later through
    /// `accepted`.
    pub(super) fn accept(
        &mut self,
        name: u64,
        vi: &Arc<ViShared>,
        accepted: &mut Option<Accepted>,
    ) -> Result<(), ConnectError> {
        let Some((_, Role::Asked(hello, _))) = self.roles.get(&name) else {
            return Err(ConnectError::Timeout);
        };
        {
            let core = &mut *lock(&vi.core);
            core.state.after(Step::Accept)?;
            core.attributes.fit(&hello.attributes)?;
            // Keeps other threads from connecting the VI meanwhile.
            core.state = ViState::ConnectPending;
            core.attempt = Some(name);
            core.result = None;
        }
        let made = self.accept_with(name, vi, name, accepted);
        if made.is_err() {
            let core = &mut *lock(&vi.core);
            // Another thread may have ended the attempt and begun another one.
            if core.attempt == Some(name) {
                vi.unmade(core);
            }
        }
        made
    }

    /// Accepts a request with a VI whose attempt has the name `attempt`.
    pub(super) fn accept_with(
        &mut self,
        name: u64,
        vi: &Arc<ViShared>,
        attempt: u64,
        accepted: &mut Option<Accepted>,
    ) -> Result<(), ConnectError> {
        let Some((Some(id), Role::Asked(hello, from))) = self.roles.remove(&name) else {
            return Err(ConnectError::Timeout);
        };
        let link = self.link(vi, &id, name, from);
        let core = &mut *lock(&vi.core);
        if core.attempt != Some(attempt) {
            return Err(ConnectError::Timeout);
        }
        let made = link.and_then(|mut link| {
            link.token = hello.token;
            core.link = Some(link);
            vi.feed_receives(core);
            let Some(link) = &core.link else { return Ok(()) };
            let welcome = Welcome {
                attributes: ViAttributes { ptag: None, ..core.attributes },
                token: link.own.number(),
            };
            link.pair.connect(&id, rights(&core.attributes))?;
            id.accept(&welcome.bytes(), self.card.offers.reads, link.pair.number())
        });
        match made {
            Ok(()) => {
                core.attempt = Some(name);
                let role = Role::Accepting(vi.clone(), hello.attributes, accepted.take());
                self.roles.insert(name, (Some(id), role));
                Ok(())
            }
            Err(Error::Call { call: "rdma_accept", .. }) => Err(ConnectError::Timeout),
            Err(error) => {
                id.reject(&Refusal::Resource.bytes());
                Err(system(&error))
            }
        }
    }

    pub(super) fn accepting(
        &mut self,
        name: u64,
        id: Option<Id>,
        (vi, theirs): (Arc<ViShared>, ViAttributes),
        accepted: Option<Accepted>,
        kind: EventKind,
    ) {
        let outcome = match kind {
            EventKind::Established => Ok(()),
            EventKind::Rejected(_) | EventKind::Unreachable | EventKind::Disconnected => {
                Err(ConnectError::Timeout)
            }
            _ => {
                self.roles.insert(name, (id, Role::Accepting(vi, theirs, accepted)));
                return;
            }
        };
        {
            let core = &mut *lock(&vi.core);
            if core.attempt != Some(name) {
                return;
            }
            match &outcome {
                Ok(()) => {
                    self.roles.insert(name, (id, Role::Connected(Arc::downgrade(&vi))));
                    vi.connected(core);
                    self.watch(&vi);
                    if let Some(result) = &core.result {
                        result.put(Ok(theirs));
                    }
                }
                Err(error) => {
                    let error = error.clone();
                    refused(&vi, core, error);
                }
            }
        }
        if let Some(accepted) = accepted {
            accepted.answer(outcome);
        }
    }
}
