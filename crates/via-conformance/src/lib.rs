//! Requirements on every provider, as cases that run against any [`Nic`].
//!
//! A case has two roles, server and client. Two threads or two processes run them at the same time. Each role asserts
//! what it observes, and panics if that is wrong. The provider's test program starts the roles and has a watchdog. It
//! is a test program without a harness, in which [`run`] makes a test of each case. Cases that need a feature that the
//! NIC does not offer ([`Case::missing`]) are reported as skipped.
//!
//! The cases use three types. An [`End`] is a VI with memory. A [`Line`] is a second connection, by which the two roles
//! synchronize. [`Told`] has errors that the error handler has received. A case with one role connects a VI to another
//! one of the same NIC ([`pair`]).

mod need;
pub mod run;
#[macro_use]
mod group;

mod end;
mod line;
mod prelude;
mod told;
mod until;

mod connections;
mod cq;
mod cq_limits;
mod cq_shared;
mod cq_signal;
mod cq_waiting;
mod cq_watch;
mod descriptors;
mod errors;
mod limits;
mod many;
mod nics;
mod notify;
mod peers;
mod peers_refused;
mod posted;
mod progress;
mod protection;
mod rdma_immediate;
mod rdma_order;
mod rdma_read;
mod rdma_revoked;
mod rdma_rights;
mod rdma_write;
mod reception;
mod regions;
mod requests;
mod requests_refused;
mod states;
mod transfers;
mod unreliable;
mod vis;
mod waiting;
mod withdrawn;

use core::time::Duration;
pub use end::{End, Target, connect, pair};
pub use line::Line;
pub use need::Need;
pub use told::Told;
use via::{NetAddress, Nic};

/// Time limit for events that happen soon, even on a busy machine. Only a failure waits this long.
pub const SOON: Option<Duration> = Some(Duration::from_secs(60));

/// Arguments of a role.
#[derive(Debug)]
pub struct Context<'n, N: Nic> {
    /// The role's own NIC.
    pub nic: &'n N,
    /// Address at which the server waits. The discriminator is unique to this run of the case. It is a byte shorter
    /// than the NIC allows, so that the case can derive others.
    pub server: NetAddress,
}

impl<N: Nic> Context<'_, N> {
    /// Returns the client's own address.
    pub fn client(&self) -> NetAddress {
        NetAddress::new(&self.nic.attributes().local_address, b"client")
    }

    /// Returns a further address of the server, the same for both roles.
    pub fn place(&self, n: u8) -> NetAddress {
        let discriminator = [&*self.server.discriminator, &[n]].concat();
        self.server.with_discriminator(&discriminator)
    }

    /// Returns a further address of the role's own NIC. The two roles may have different NICs.
    pub fn own(&self, n: u8) -> NetAddress {
        self.at(&self.nic.attributes().local_address, n)
    }

    /// Returns a further address of the NIC at `host`.
    pub(crate) fn at(&self, host: &[u8], n: u8) -> NetAddress {
        NetAddress::new(host, &self.place(n).discriminator)
    }
}

/// A case.
#[derive(Debug)]
pub struct Case<N: Nic> {
    /// Part of the architecture that the case tests.
    pub group: &'static str,
    /// Name of the case, which states the expectation.
    pub name: &'static str,
    /// Features that the NIC must offer.
    pub needs: &'static [Need],
    /// Role that waits for connections.
    pub server: fn(&Context<'_, N>),
    /// Role that requests connections.
    pub client: fn(&Context<'_, N>),
}

impl<N: Nic> Case<N> {
    /// Returns a feature that the case needs and the NIC does not offer. Such a case must be skipped.
    pub fn missing(&self, nic: &N) -> Option<Need> {
        self.needs.iter().copied().find(|need| !need.is_met(nic.attributes()))
    }
}

/// Role of a case without a server.
fn no_role<N: Nic>(_: &Context<'_, N>) {}

/// Returns every case.
pub fn cases<N: Nic>() -> Vec<Case<N>> {
    let groups = [
        nics::cases(),
        vis::cases(),
        states::cases(),
        connections::cases(),
        requests::cases(),
        requests_refused::cases(),
        peers::cases(),
        peers_refused::cases(),
        protection::cases(),
        regions::cases(),
        transfers::cases(),
        progress::cases(),
        posted::cases(),
        many::cases(),
        waiting::cases(),
        errors::cases(),
        descriptors::cases(),
        rdma_write::cases(),
        rdma_immediate::cases(),
        rdma_rights::cases(),
        rdma_revoked::cases(),
        rdma_read::cases(),
        rdma_order::cases(),
        cq::cases(),
        cq_shared::cases(),
        cq_waiting::cases(),
        cq_limits::cases(),
        cq_signal::cases(),
        cq_watch::cases(),
        notify::cases(),
        unreliable::cases(),
        reception::cases(),
        limits::cases(),
    ];
    groups.into_iter().flatten().collect()
}
