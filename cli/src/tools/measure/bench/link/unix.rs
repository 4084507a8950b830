//! The kernel's Unix stream sockets.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::socket::Socket;
use crate::measure::bench::task::{Task, Wait};

/// Listens under a new abstract name, and returns it.
pub(in crate::measure::bench) fn listen() -> anyhow::Result<(UnixListener, String)> {
    let name = format!("sovia-bench-{}", std::process::id());
    Ok((listen_at(&name)?, name))
}

/// Listens under an abstract name.
pub(in crate::measure::bench) fn listen_at(name: &str) -> anyhow::Result<UnixListener> {
    Ok(UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?)
}

/// Accepts the requester's connection.
pub(in crate::measure::bench) fn accept(
    listener: &UnixListener,
    task: &Task,
) -> anyhow::Result<Socket> {
    prepare(listener.accept()?.0, task)
}

/// Connects to the responder's name.
pub(in crate::measure::bench) fn connect(name: &str, task: &Task) -> anyhow::Result<Socket> {
    prepare(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?, task)
}

fn prepare(stream: UnixStream, task: &Task) -> anyhow::Result<Socket> {
    stream.set_nonblocking(task.wait == Wait::Poll)?;
    Ok(Socket::new(stream.into()))
}
