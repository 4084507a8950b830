//! What every provider must do, as cases that run against any [`Nic`].
//!
//! A case has two roles, server and client, to be run at the same time by two threads or two
//! processes; each asserts what it sees, and panics where that is wrong. How the two are started
//! is the provider's business, as is a watchdog. A provider has a test program without a harness, in
//! which [`run`] makes a test of each case, but for those that ask for what the NIC does not offer
//! ([`Case::missing`]): these are reported as skipped.
//!
//! The cases are written with an [`End`] (a VI and memory), a [`Line`] (a second connection, over
//! which the two roles agree on the order of things) and [`Told`] (what the error handler heard).
//! A case of one role connects a VI to another of the same NIC ([`pair`]).

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

/// Long enough for whatever is to happen soon, beside a load as well; only a failure waits this long.
pub const SOON: Option<Duration> = Some(Duration::from_secs(60));

/// What a role gets.
#[derive(Debug)]
pub struct Context<'n, N: Nic> {
    /// The role's own NIC.
    pub nic: &'n N,
    /// Where the server waits. The discriminator is of this run of the case alone, and a byte
    /// shorter than the NIC allows, so that the case can make others from it.
    pub server: NetAddress,
}

impl<N: Nic> Context<'_, N> {
    /// The client's own address.
    pub fn client(&self) -> NetAddress {
        NetAddress::new(&self.nic.attributes().local_address, b"client")
    }

    /// Further places of the server's, the same for both roles.
    pub fn place(&self, n: u8) -> NetAddress {
        let discriminator = [&*self.server.discriminator, &[n]].concat();
        self.server.with_discriminator(&discriminator)
    }

    /// The role's own places. The two roles may have different NICs.
    pub fn own(&self, n: u8) -> NetAddress {
        self.at(&self.nic.attributes().local_address, n)
    }

    /// Places of a NIC.
    pub(crate) fn at(&self, host: &[u8], n: u8) -> NetAddress {
        NetAddress::new(host, &self.place(n).discriminator)
    }
}

/// A case.
#[derive(Debug)]
pub struct Case<N: Nic> {
    /// Which part of the architecture it is about.
    pub group: &'static str,
    /// What is to hold.
    pub name: &'static str,
    /// What the NIC must offer for it.
    pub needs: &'static [Need],
    /// The role that waits for connections.
    pub server: fn(&Context<'_, N>),
    /// The role that requests them.
    pub client: fn(&Context<'_, N>),
}

impl<N: Nic> Case<N> {
    /// What the NIC does not offer and the case needs: then it is to be skipped.
    pub fn missing(&self, nic: &N) -> Option<Need> {
        self.needs.iter().copied().find(|need| !need.is_met(nic.attributes()))
    }
}

/// The role that a case does not have.
fn no_role<N: Nic>(_: &Context<'_, N>) {}

/// Every case.
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
