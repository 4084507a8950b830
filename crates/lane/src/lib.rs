//! LAN emulation: an IP network whose packets travel in messages of Virtual Interfaces.
//!
//! A [`Lane`] takes IP packets from a device, as a rule a TUN device, and sends each as one message to the lane of the peer that
//! has its destination address; what comes from peers it gives to the device. It is what the papers call TCP over VIA by a LANE
//! driver: any program that speaks IP runs over it, and pays for the kernel's TCP and IP as it would on any other device.
//!
//! - `packet`: the addresses of a packet, checked; `routes`: which peer has an address;
//! - `credit`: how many messages a peer has receives for; `peer`: what becomes of a packet, by the state of the way to its peer;
//! - `link`: a VI with its memory, at the end that sends or at the one that receives;
//! - `device`: where packets come from; `counters`: what has become of them; `event`: what a lane tells;
//! - `shared`: what the threads have in common; `outgoing`, `incoming`, `connect`, `accept`: what each thread does; `lane`: all of it.
//!
//! # Connections
//!
//! A VI carries packets in one direction: the end that has packets for a peer requests it, at the first of them, at the place
//! that it has been told. So packets for an address go to that place alone, whatever another station says of itself. VIs are
//! reliable, as those of the papers' cLAN were: the NIC finds out that a peer is gone, and nothing here measures time. A reliable
//! VI breaks if a message meets no posted receive, so the end that receives tells the other one how many it has posted
//! (`credit`). Packets beyond that wait, up to [`WAITING_MAX`] for a peer; those beyond are dropped, as by any other device.
//!
//! A peer that is gone is forgotten with the packets that wait for it. The next packet requests a connection anew.
//!
//! # What is not carried
//!
//! Multicasts and broadcasts, since no peer has such an address; packets for addresses that no peer has; from a peer, packets
//! whose source is not one of that peer's addresses. They are dropped and counted ([`Counters`]).

#![forbid(unsafe_code)]

mod accept;
mod connect;
mod counters;
mod credit;
mod device;
mod event;
#[cfg(fuzzing)]
pub mod fuzzing;
mod incoming;
mod lane;
mod link;
mod outgoing;
mod packet;
mod peer;
mod routes;
mod shared;

pub use counters::Counters;
pub use device::Device;
pub use event::Event;
pub use lane::{Config, Lane, MTU_MAX, MTU_MIN, PEERS_MAX, PeerConfig, StartError};
pub use peer::WAITING_MAX;
pub use routes::Overlap;
