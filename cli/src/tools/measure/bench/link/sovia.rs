//! A SOVIA stream over a VI, in one of the papers' configurations.

use std::io;
use std::time::Duration;

use sovia_stream::{Configuration, Stack, Stream};
use via::{NetAddress, Nic};

use super::Link;

const DISCRIMINATOR: &[u8] = b"stream";
const TIMEOUT: Duration = Duration::from_secs(10);

/// One end of a stream.
pub(in crate::measure::bench) struct Sovia<N: Nic + 'static> {
    stream: Stream<N>,
    /// True if combined bytes must be sent at once, because no later operation of this end would send them.
    is_prompt: bool,
}

/// An end that waits for the requester.
pub(in crate::measure::bench) struct Listener<N: Nic + 'static>(sovia_stream::Listener<N>);

/// Listens on a NIC.
pub(in crate::measure::bench) fn listen<N: Nic + 'static>(
    nic: N,
    how: &Configuration,
) -> anyhow::Result<Listener<N>> {
    let address = NetAddress::new(&nic.attributes().local_address, DISCRIMINATOR);
    Ok(Listener(Stack::new(nic)?.listen(&address, how)?))
}

impl<N: Nic + 'static> Listener<N> {
    /// Accepts the requester's connection.
    pub(in crate::measure::bench) fn accept(self) -> anyhow::Result<Sovia<N>> {
        Ok(Sovia { stream: self.0.accept_within(TIMEOUT)?.0, is_prompt: true })
    }
}

/// Connects to the responder's NIC at the host address `host`.
pub(in crate::measure::bench) fn connect<N: Nic + 'static>(
    nic: N,
    host: &[u8],
    how: &Configuration,
) -> anyhow::Result<Sovia<N>> {
    let address = NetAddress::new(host, DISCRIMINATOR);
    let stack = Stack::new(nic)?;
    // The listener's thread may not wait yet.
    let stream = super::spin(|| stack.connect(&address, how, Some(TIMEOUT)).ok());
    Ok(Sovia { stream, is_prompt: false })
}

impl<N: Nic + 'static> Link for Sovia<N> {
    fn send(&mut self, data: &[u8]) -> io::Result<()> {
        let sent = self.stream.write(data)?;
        if self.is_prompt {
            self.stream.flush();
        }
        if sent == data.len() { Ok(()) } else { Err(io::ErrorKind::ConnectionReset.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush();
        Ok(())
    }

    fn receive(&mut self, data: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(data)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(len),
        }
    }
}
