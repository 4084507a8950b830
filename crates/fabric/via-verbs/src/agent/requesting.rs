//! The requesting side of a connection.

use crate::agent::attempt::{fail, refused, rights, system};
use crate::agent::role::{Attempt, Role};
use crate::agent::{AGAIN, Agent};
use crate::slot::lock;
use crate::wire::{Hello, Refusal, Welcome};
use sovia_verbs::{Error, EventKind, Id, Space};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use via::ViAttributes;
use via::error::ConnectError;

impl Agent {
    /// Makes an identifier that looks for the route to a remote NIC.
    pub(super) fn resolving(&self, space: Space, name: u64, to: SocketAddr) -> Result<Id, Error> {
        let id = Id::new(&self.card.events, space, name)?;
        id.resolve(self.card.at.ip(), to)?;
        Ok(id)
    }

    pub(super) fn request(&mut self, name: u64, attempt: Attempt) {
        match self.resolving(Space::Connections, name, attempt.to) {
            Ok(id) => {
                self.roles.insert(name, (Some(id), Role::Requests(attempt)));
            }
            Err(_) => fail(name, &attempt, ConnectError::NotReachable("no route to that address")),
        }
    }

    pub(super) fn requests(
        &mut self,
        name: u64,
        id: Option<Id>,
        attempt: Attempt,
        kind: EventKind,
        said: &[u8],
    ) {
        let Some(id) = id else { return };
        let vi = attempt.vi.clone();
        match kind {
            EventKind::AddressResolved => match id.resolve_route() {
                Ok(()) => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
                Err(_) => {
                    fail(name, &attempt, ConnectError::NotReachable("no route to that address"))
                }
            },
            EventKind::RouteResolved => {
                let link = self.link(&vi, &id, name, attempt.to);
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                let (number, token) = match link {
                    Ok(link) => {
                        let names = (link.pair.number(), link.own.number());
                        core.link = Some(link);
                        vi.feed_receives(core);
                        names
                    }
                    Err(error) => return refused(&vi, core, system(&error)),
                };
                let hello = Hello {
                    is_peer: attempt.is_peer,
                    attributes: ViAttributes { ptag: None, ..core.attributes },
                    token,
                    port: self.card.at.port(),
                    from: attempt.local.discriminator.clone(),
                    to: attempt.remote.discriminator.clone(),
                };
                match id.connect(&hello.bytes(), self.card.offers.reads, number) {
                    Ok(()) => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
                    Err(error) => refused(&vi, core, system(&error)),
                }
            }
            EventKind::Response => {
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                let welcome = Welcome::parse(said);
                let (Some(welcome), Some(link)) = (welcome, core.link.as_mut()) else {
                    return refused(
                        &vi,
                        core,
                        ConnectError::NotReachable("the other side is not a NIC of Sovia"),
                    );
                };
                link.token = welcome.token;
                let connected =
                    link.pair.connect(&id, rights(&core.attributes)).and_then(|()| id.establish());
                if let Err(error) = connected {
                    return refused(&vi, core, system(&error));
                }
                self.roles.insert(name, (Some(id), Role::Connected(Arc::downgrade(&vi))));
                vi.connected(core);
                self.watch(&vi);
                if let Some(slot) = &core.result {
                    slot.put(Ok(welcome.attributes));
                }
            }
            EventKind::Rejected(_) | EventKind::Unreachable => {
                drop(id);
                let error = match Refusal::parse(said) {
                    Some(Refusal::Rejected) => ConnectError::Rejected,
                    Some(Refusal::Reliability) => ConnectError::Reliability,
                    Some(Refusal::MaxTransferSize) => ConnectError::MaxTransferSize,
                    Some(Refusal::Resource) => {
                        ConnectError::NotReachable("the other side is out of resources")
                    }
                    Some(Refusal::NoMatch) => ConnectError::NoMatch,
                    // No program listens at that address.
                    None if matches!(kind, EventKind::Rejected(_)) => ConnectError::NoMatch,
                    None => ConnectError::NotReachable("the other NIC does not answer"),
                };
                let core = &mut *lock(&vi.core);
                if core.attempt != Some(name) {
                    return;
                }
                if attempt.is_peer && error == ConnectError::NoMatch {
                    // The peer is not there yet.
                    core.link = None;
                    core.recv_restart();
                    self.peers.insert(name, (attempt, Some(Instant::now() + AGAIN)));
                    return;
                }
                refused(&vi, core, error);
            }
            _ => drop(self.roles.insert(name, (Some(id), Role::Requests(attempt)))),
        }
    }
}
