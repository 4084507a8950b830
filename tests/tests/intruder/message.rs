//! Wire format of a rendezvous, written down a second time. A developer who changes this format
//! breaks the rendezvous with older builds.

use super::kernel::Connection;
use std::net::SocketAddr;

pub(crate) const HELLO: u32 = 1;
pub(crate) const OFFER: u32 = 2;
pub(crate) const ACCEPT: u32 = 3;
pub(crate) const ASK: u32 = 4;
pub(crate) const SHOW: u32 = 5;
pub(crate) const STAY: u32 = 6;
/// Bytes of a message.
pub(crate) const LEN: usize = 144;
/// Offset of the challenge's secret.
pub(crate) const SHOWN_AT: usize = 128;

/// A message to send; fields that a test does not change are valid.
#[derive(Clone, Debug)]
pub(crate) struct Forgery {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) step: u32,
    pub(crate) pid: i32,
    pub(crate) nonce: u64,
    /// Number of the descriptor that is the receiver's challenge.
    pub(crate) place: i32,
    pub(crate) connector: SocketAddr,
    pub(crate) acceptor: SocketAddr,
    pub(crate) cookie: u64,
    /// Address families, if they must differ from those of the two addresses.
    pub(crate) families: Option<u8>,
}

impl Forgery {
    /// Returns a valid Hello about a connection, except for its sender.
    pub(crate) fn about(connection: &Connection) -> Forgery {
        Forgery {
            magic: *b"SOVIAMT\0",
            version: 5,
            step: HELLO,
            pid: std::process::id().cast_signed(),
            nonce: 0x1234_5678_9abc_def1,
            place: -1,
            connector: connection.connector,
            acceptor: connection.acceptor,
            cookie: connection.acceptors_cookie(),
            families: None,
        }
    }

    /// Returns the same message as the connector would send it.
    pub(crate) fn by_connector(connection: &Connection, step: u32) -> Forgery {
        let cookie = connection.connectors_cookie();
        Forgery { step, cookie, ..Forgery::about(connection) }
    }

    /// Returns the message's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; LEN];
        out[0..8].copy_from_slice(&self.magic);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[12..16].copy_from_slice(&self.step.to_le_bytes());
        out[16..20].copy_from_slice(&self.pid.to_le_bytes());
        out[20..24].copy_from_slice(&self.place.to_le_bytes());
        out[24..32].copy_from_slice(&self.nonce.to_le_bytes());
        put_address(&mut out[32..52], self.connector);
        put_address(&mut out[52..72], self.acceptor);
        out[72..80].copy_from_slice(&self.cookie.to_le_bytes());
        if let Some(family) = self.families {
            (out[32], out[52]) = (family, family);
        }
        out
    }
}

fn put_address(out: &mut [u8], address: SocketAddr) {
    out[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address {
        SocketAddr::V4(v4) => {
            out[0] = 4;
            out[4..8].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            out[0] = 6;
            out[4..20].copy_from_slice(&v6.ip().octets());
        }
    }
}
