//! What the two processes say to each other outside of what is measured: numbers, over a Unix
//! socket.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// A connection between the two processes of a measurement.
pub(super) struct Control(UnixStream);

/// Listens under an abstract name of its own, which is returned.
pub(super) fn listen() -> anyhow::Result<(UnixListener, String)> {
    let name = format!("sovia-papers-{}", std::process::id());
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

    /// Says a number.
    pub(super) fn tell(&mut self, number: u64) -> anyhow::Result<()> {
        Ok(self.0.write_all(&number.to_ne_bytes())?)
    }

    /// Hears a number, sleeping until there is one.
    pub(super) fn hear(&mut self) -> anyhow::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Sends some numbers and receives as many from the peer, which does the same.
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

    /// Returns when the peer calls it too.
    pub(super) fn meet(&mut self) -> anyhow::Result<()> {
        self.exchange([0]).map(drop)
    }
}
