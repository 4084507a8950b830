//! Control messages of the two processes outside the measured traffic: numbers, over a Unix socket.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;

/// Largest control message in bytes: the address of a NIC.
const BYTES_MAX: usize = 256;

/// A control connection between the two processes of a measurement.
pub(super) struct Control(UnixStream);

/// Listens under a new abstract name, and returns it.
pub(super) fn listen() -> anyhow::Result<(UnixListener, String)> {
    static LISTENERS: AtomicU32 = AtomicU32::new(0);
    let number = LISTENERS.fetch_add(1, Ordering::Relaxed);
    let name = format!("sovia-papers-{}-{number}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    Ok((listener, name))
}

impl Control {
    /// Accepts the requester's connection.
    pub(super) fn accept(listener: &UnixListener) -> anyhow::Result<Self> {
        Ok(Self(listener.accept()?.0))
    }

    /// Connects to the responder.
    pub(super) fn connect(name: &str) -> anyhow::Result<Self> {
        Ok(Self(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?))
    }

    /// Sends a number.
    pub(super) fn tell(&mut self, number: u64) -> anyhow::Result<()> {
        Ok(self.0.write_all(&number.to_ne_bytes())?)
    }

    /// Receives a number. Sleeps until there is one.
    pub(super) fn hear(&mut self) -> anyhow::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Sends some bytes as one message.
    pub(super) fn tell_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.tell(bytes.len() as u64)?;
        Ok(self.0.write_all(bytes)?)
    }

    /// Receives one message of bytes. Sleeps until it is complete.
    pub(super) fn hear_bytes(&mut self) -> anyhow::Result<Box<[u8]>> {
        let len = usize::try_from(self.hear()?).ok().filter(|len| *len <= BYTES_MAX);
        let mut bytes = vec![0; len.context("cannot read a message of the other end: too long")?];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Sends some numbers, and receives as many from the peer, which calls this too.
    pub(super) fn exchange<const N: usize>(&mut self, mine: [u64; N]) -> anyhow::Result<[u64; N]> {
        for number in mine {
            self.tell(number)?;
        }
        let mut theirs = [0; N];
        for number in &mut theirs {
            *number = self.hear()?;
        }
        Ok(theirs)
    }

    /// Waits until the peer calls this too.
    pub(super) fn meet(&mut self) -> anyhow::Result<()> {
        self.exchange([0]).map(drop)
    }
}
