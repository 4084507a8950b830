//! Makes both types usable in mio's event loops.

use crate::{TcpListener, TcpStream};
use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;

/// An event may be spurious, and may name a direction that has not changed. The stream must be non-blocking.
impl Source for TcpStream {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        let readiness = self.shared_readiness()?;
        let interests = if readiness.is_shared() { widened(interests) } else { interests };
        SourceFd(&readiness.as_raw_fd()).register(registry, token, interests)?;
        readiness.tell();
        Ok(())
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        let readiness = self.shared_readiness()?;
        let interests = if readiness.is_shared() { widened(interests) } else { interests };
        SourceFd(&readiness.as_raw_fd()).reregister(registry, token, interests)?;
        readiness.tell();
        Ok(())
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.shared_readiness()?.as_raw_fd()).deregister(registry)
    }
}

/// Adds `READABLE` to `WRITABLE`: the reactor makes an edge by a write, which the kernel reports as readable.
fn widened(interests: Interest) -> Interest {
    if interests.is_writable() { interests | Interest::READABLE } else { interests }
}

impl Source for TcpListener {
    fn register(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).register(registry, token, interests)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        interests: Interest,
    ) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        SourceFd(&self.as_raw_fd()).deregister(registry)
    }
}
