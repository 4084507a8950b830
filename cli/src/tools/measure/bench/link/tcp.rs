//! TCP over loopback, for the layers `tcp` and `sovia` (with the library), and TCP between two hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use super::socket::Socket;
use crate::measure::bench::task::{Scenario, Task, Wait};

/// Listens on a port that the kernel chooses. Returns the port as text.
pub(in crate::measure::bench) fn listen() -> anyhow::Result<(TcpListener, String)> {
    let (listener, at) = listen_at(Ipv4Addr::LOCALHOST.into())?;
    Ok((listener, at.port().to_string()))
}

/// Listens at an address of this host, on a port that the kernel chooses.
pub(in crate::measure::bench) fn listen_at(
    ip: IpAddr,
) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((ip, 0))?;
    let at = listener.local_addr()?;
    Ok((listener, at))
}

/// Accepts the requester's connection.
pub(in crate::measure::bench) fn accept(
    listener: &TcpListener,
    task: &Task,
) -> anyhow::Result<Socket> {
    prepare(listener.accept()?.0, task)
}

/// Connects to the responder's port.
pub(in crate::measure::bench) fn connect(port: &str, task: &Task) -> anyhow::Result<Socket> {
    connect_to((Ipv4Addr::LOCALHOST, port.parse()?).into(), task)
}

/// Connects to the responder's address.
pub(in crate::measure::bench) fn connect_to(at: SocketAddr, task: &Task) -> anyhow::Result<Socket> {
    prepare(TcpStream::connect(at)?, task)
}

/// Sets the largest buffers that the system allows without privileges. The kernel caps the requested sizes.
pub(in crate::measure::bench) fn with_greatest_buffers(socket: Socket) -> anyhow::Result<Socket> {
    for name in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        socket.set_option(libc::SOL_SOCKET, name, libc::c_int::MAX / 2)?;
    }
    Ok(socket)
}

fn prepare(stream: TcpStream, task: &Task) -> anyhow::Result<Socket> {
    // TCP_NODELAY stays off for a stream of large writes, as in most programs.
    stream.set_nodelay(task.scenario != Scenario::Bandwidth)?;
    stream.set_nonblocking(task.wait == Wait::Poll)?;
    Ok(Socket::new(stream.into()))
}
