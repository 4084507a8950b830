//! TCP over loopback: the layers `tcp` and, with the library loaded, `sovia`.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::socket::Socket;
use crate::bench::task::{Scenario, Task, Wait};

/// Listens on a port of the kernel's choice; returns the port as text.
pub(in crate::bench) fn listen() -> anyhow::Result<(TcpListener, String)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    Ok((listener, port.to_string()))
}

/// Accepts the requester's connection.
pub(in crate::bench) fn accept(listener: &TcpListener, task: &Task) -> anyhow::Result<Socket> {
    prepare(listener.accept()?.0, task)
}

/// Connects to the responder's port.
pub(in crate::bench) fn connect(port: &str, task: &Task) -> anyhow::Result<Socket> {
    prepare(TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse()?))?, task)
}

fn prepare(stream: TcpStream, task: &Task) -> anyhow::Result<Socket> {
    // A stream of large writes is left as programs leave it.
    stream.set_nodelay(task.scenario != Scenario::Bandwidth)?;
    stream.set_nonblocking(task.wait == Wait::Poll)?;
    Ok(Socket::new(stream.into()))
}
