//! Connects two programs that both request the connection (`VipConnectPeerRequest`).
//!
//! Two such requests belong together if the local address of each request is the remote address of the other one.
//! The end with the greater local address waits at an address that is computed from both ends' addresses. The other
//! end requests a connection at this address, again and again, until the first end waits there. If the local and
//! the remote address are equal, each end alternates between a request and a wait, each for a random time.

use crate::connect::{Incoming, Outgoing};
use crate::hash;
use crate::patience::{deadline, left};
use crate::vi::inner::Core;
use core::cmp::Ordering as Order;
use core::sync::atomic::Ordering;
use core::time::Duration;
use sovia_sys::poll::ppoll;
use sovia_sys::{call, clock, futex, process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use via::connection::Model;
use via::error::ConnectError;
use via::state::{Event, IllegalTransition};
use via::{NetAddress, ViAttributes};

/// Shortest pause between two requests to a peer that does not wait yet, in nanoseconds. `PAUSE_LAST` is the
/// longest pause.
const PAUSE_FIRST: u64 = 200_000;
const PAUSE_LAST: u64 = 5_000_000;

type Outcome = Result<ViAttributes, ConnectError>;

/// State of a VI's peer request.
#[derive(Debug, Default)]
pub(crate) struct Peering(Mutex<Stage>);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    None,
    /// The request is pending. The number identifies the request among the VI's requests.
    Requested(u64),
    Over(Outcome),
}

impl Peering {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address at which the ends with the addresses `a` and `b` connect. It consists of `host` and a
/// discriminator of 128 bits, which is computed from `a` and `b`. A program is unlikely to use this discriminator
/// for another purpose.
fn rendezvous_address(host: &[u8], a: &NetAddress, b: &NetAddress) -> NetAddress {
    // Two hashes of 64 bits, with different start values.
    let of = |start: u64| {
        let parts = [&a.host, &a.discriminator, &b.host, &b.discriminator];
        parts.iter().fold(start, |h, part| {
            let bytes = (part.len() as u64).to_le_bytes().into_iter().chain(part.iter().copied());
            hash::fnv(h, bytes)
        })
    };
    let halves = [of(hash::START), of(0x9e37_79b9_7f4a_7c15)].map(u64::to_le_bytes);
    NetAddress::new(host, halves.as_flattened())
}

impl Core {
    pub(crate) fn connect_peer_request(
        self: &Arc<Self>,
        local: &NetAddress,
        remote: &NetAddress,
        timeout: Option<Duration>,
    ) -> Result<(), ConnectError> {
        if timeout == Some(Duration::ZERO) {
            return Err(ConnectError::InvalidParameter("a timeout of zero"));
        }
        for address in [local, remote] {
            crate::connect::check(address)?;
        }
        self.nic.attributes.own(local)?;
        let number = self.machine().begin(Model::PeerToPeer)?;
        *self.peering.stage() = Stage::Requested(number);
        let request = Peers {
            core: self.clone(),
            number,
            local: local.clone(),
            remote: remote.clone(),
            until: deadline(timeout),
        };
        let spawned = process::without_signals(|| {
            std::thread::Builder::new().name("via-peer".into()).spawn(move || request.run())
        });
        if spawned.is_err() {
            let error = ConnectError::Resource("threads");
            self.refused(number, &error)?;
            *self.peering.stage() = Stage::None;
            return Err(error);
        }
        Ok(())
    }

    /// Discards the peer request, after the program has disconnected the VI.
    pub(super) fn forget_peers(&self) {
        *self.peering.stage() = Stage::None;
    }

    pub(crate) fn connect_peer_done(&self) -> Option<Outcome> {
        let mut stage = self.peering.stage();
        match core::mem::take(&mut *stage) {
            Stage::Over(outcome) => Some(outcome),
            Stage::Requested(number) => {
                *stage = Stage::Requested(number);
                None
            }
            Stage::None => {
                drop(stage);
                let state = self.machine().state;
                Some(Err(IllegalTransition { state, event: Event::Accepted }.into()))
            }
        }
    }

    pub(crate) fn connect_peer_wait(&self) -> Outcome {
        loop {
            let seen = self.changes.load(Ordering::SeqCst);
            if let Some(outcome) = self.connect_peer_done() {
                return outcome;
            }
            let _ = futex::wait(&self.changes, seen, None);
        }
    }
}

/// A pending peer request.
struct Peers {
    core: Arc<Core>,
    number: u64,
    local: NetAddress,
    remote: NetAddress,
    until: Option<u64>,
}

impl Peers {
    fn run(self) {
        let outcome = self.connect();
        if let Err(error) = &outcome {
            // Fails if the program has disconnected the VI, because the disconnect has already ended the request.
            let _ = self.core.refused(self.number, error);
        }
        let mut stage = self.core.peering.stage();
        if matches!(*stage, Stage::Requested(number) if number == self.number) {
            *stage = Stage::Over(outcome);
        }
        drop(stage);
        self.core.changed();
    }

    fn connect(&self) -> Outcome {
        match self.local.cmp(&self.remote) {
            Order::Greater => self.wait(self.until),
            Order::Less => self.knock(self.until),
            Order::Equal => loop {
                let now = clock::now_ns();
                let turn = |most: u64| {
                    let mut random = [0; 8];
                    let _ = call::getrandom(&mut random);
                    let end = now + most / 2 + u64::from_le_bytes(random) % most;
                    Some(self.until.map_or(end, |until| until.min(end)))
                };
                match self.knock(turn(PAUSE_LAST)) {
                    Err(ConnectError::Timeout) => {}
                    outcome => return outcome,
                }
                match self.wait(turn(4 * PAUSE_LAST)) {
                    Err(ConnectError::Timeout | ConnectError::Resource(_)) => {}
                    outcome => return outcome,
                }
                if left(self.until) == Some(0) {
                    return Err(ConnectError::Timeout);
                }
            },
        }
    }

    /// Checks that the VI's request is still pending, and returns the time of the next check, which is at most
    /// `until`. Fails if the program has disconnected or destroyed the VI.
    fn slice(&self, until: Option<u64>) -> Result<u64, ConnectError> {
        const SLICE: u64 = 50_000_000;
        self.core.machine().request(self.number)?;
        let slice = clock::now_ns() + SLICE;
        Ok(until.map_or(slice, |until| until.min(slice)))
    }

    /// Waits for the peer's request and accepts it.
    fn wait(&self, until: Option<u64>) -> Outcome {
        let nic = &self.core.nic;
        let place = rendezvous_address(&nic.attributes.local_address, &self.remote, &self.local);
        loop {
            let incoming = Incoming::wait_in_slices(&nic.hub, &place, until, || self.slice(until))?;
            let theirs = incoming.request.attributes;
            match self
                .core
                .answer(Box::new(incoming), Some(self.number))
                .map_err(ConnectError::from)
            {
                Ok(()) => return Ok(theirs),
                // The peer has given up its request, but may make another one.
                Err(ConnectError::Timeout) if left(until) != Some(0) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests a connection to the peer again and again, until the peer waits and answers.
    fn knock(&self, until: Option<u64>) -> Outcome {
        let nic = &self.core.nic;
        let place = rendezvous_address(&self.remote.host, &self.local, &self.remote);
        let mut pause = PAUSE_FIRST;
        loop {
            self.slice(until)?;
            let outgoing = Outgoing {
                hub: &nic.hub,
                local: &self.local,
                remote: &place,
                attributes: self.core.attributes(),
                until,
            };
            match self.core.request(self.number, &outgoing) {
                Err(ConnectError::NoMatch) if left(until) == Some(0) => {
                    return Err(ConnectError::Timeout);
                }
                Err(ConnectError::NoMatch) => {}
                outcome => return outcome,
            }
            let _ = ppoll(&mut [], Some(left(until).unwrap_or(pause).min(pause)), None);
            pause = (pause * 2).min(PAUSE_LAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rendezvous_address_is_of_its_pair_and_direction_alone() {
        let of = |a: &str, b: &str| {
            let address = |d: &str| NetAddress::new(&[1; 6], d.as_bytes());
            rendezvous_address(&[1; 6], &address(a), &address(b))
        };
        assert_eq!(of("a", "b"), of("a", "b"));
        assert_ne!(of("a", "b"), of("b", "a"));
        assert_ne!(of("ab", "c"), of("a", "bc"));
    }
}
