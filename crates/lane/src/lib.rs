//! LAN emulation: an IP network whose packets travel in the messages of Virtual Interfaces.
//!
//! A [`Lane`] takes IP packets from a device, usually a TUN device. Each packet becomes one message to the lane of
//! the peer that has the destination address. The lane gives packets from peers to the device. The papers call this
//! method TCP over VIA by a LANE driver. Any program that uses IP can run over a lane, with the usual cost of the
//! kernel's TCP and IP.
//!
//! - `packet`: finds and checks the addresses of a packet. `routes`: finds the peer that has an address.
//! - `credit`: the number of receives that a peer has posted. `peer`: decides whether a packet is sent, queued or
//!   dropped.
//! - `link`: a VI with its memory, for the sender and for the receiver.
//! - `device`: source of packets. `counters`: packets by result. `event`: reports to the owner.
//! - `shared`: data of all threads. `outgoing`, `incoming`, `connect`, `accept`: one thread each. `lane`: starts
//!   them.
//!
//! # Connections
//!
//! A VI carries packets in one direction. A lane requests a VI when it has the first packet for a peer. The VI
//! connects to the NIC address in the configuration. So no other station can attract packets by claiming a peer's
//! address. VIs are reliable, like those of the papers' cLAN. So the NIC finds out that a peer is gone, and the lane
//! has no timers. A reliable VI breaks if a message meets no posted receive. So the receiver tells the sender how
//! many receives it has posted (`credit`). Up to [`WAITING_MAX`] further packets for a peer wait in a queue. The lane
//! drops packets beyond that, like any other device.
//!
//! When a peer is gone, the lane drops the packets that wait for the peer. The next packet requests a new connection.
//!
//! # What is not carried
//!
//! The lane drops these packets, and counts them ([`Counters`]):
//!
//! - multicasts and broadcasts, because no peer has such an address,
//! - packets for an address that no peer has,
//! - packets from a peer whose source address is not one of the peer's addresses.

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
