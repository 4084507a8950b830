//! Types for asynchronous programs, in the style of `tokio::net`.

use crate::Readiness;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A stream with [`AsyncRead`] and [`AsyncWrite`]. Call its methods only within a tokio runtime.
///
/// ```
/// use sovia::tokio::{TcpListener, TcpStream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
/// # runtime.block_on(async {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let client = tokio::spawn(async move {
///     let mut stream = TcpStream::connect(address).await?;
///     stream.write_all(b"ping").await?;
///     stream.shutdown().await
/// });
/// let (mut stream, _peer) = listener.accept().await?;
/// let mut said = String::new();
/// stream.read_to_string(&mut said).await?;
/// assert_eq!(said, "ping");
/// # client.await??;
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpStream {
    // The first field, so that it is dropped before the stream.
    readiness: AsyncFd<Readiness>,
    stream: crate::TcpStream,
}

impl TcpStream {
    /// Connects to an address.
    ///
    /// # Errors
    /// The errors of connect(2), or an error if the process cannot get another descriptor or thread.
    pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::new(crate::TcpStream::connect_nonblocking(&address)?)?;
        loop {
            let mut ready = stream.readiness.writable().await?;
            if let Some(error) = stream.stream.take_error()? {
                return Err(error);
            }
            match stream.stream.peer_addr() {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::NotConnected => ready.clear_ready(),
                Err(e) => return Err(e),
            }
        }
        Ok(stream)
    }

    /// Registers a stream with the runtime, and makes the stream non-blocking.
    ///
    /// # Errors
    /// An error if the process cannot get another descriptor or thread.
    pub fn new(stream: crate::TcpStream) -> io::Result<TcpStream> {
        stream.set_nonblocking(true)?;
        let readiness = stream.shared_readiness()?.clone();
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: a `Readiness` always returns the same descriptor, and keeps it open until it is dropped.
        let readiness = unsafe { AsyncFd::register_with_interest(readiness, interest)? };
        // Makes an edge for events from before the registration.
        readiness.get_ref().tell();
        Ok(TcpStream { readiness, stream })
    }

    /// Returns the stream, for its addresses, options and statistics.
    pub fn get_ref(&self) -> &crate::TcpStream {
        &self.stream
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.readiness.poll_read_ready(context))?;
            match (&self.stream).read(buffer.initialize_unfilled()) {
                Ok(n) => {
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.readiness.poll_write_ready(context))?;
            match (&self.stream).write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct TcpListener {
    listener: AsyncFd<crate::TcpListener>,
}

impl TcpListener {
    /// Listens at an address.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::bind`].
    pub fn bind<A: ToSocketAddrs>(address: A) -> io::Result<TcpListener> {
        TcpListener::new(crate::TcpListener::bind(address)?)
    }

    /// Registers a listener with the runtime, and makes the listener non-blocking.
    ///
    /// # Errors
    /// An error if the runtime cannot wait for the listener's descriptor.
    pub fn new(listener: crate::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        // SAFETY: a listener keeps its descriptor open until it is dropped.
        let listener = unsafe { AsyncFd::register_with_interest(listener, Interest::READABLE)? };
        Ok(TcpListener { listener })
    }

    /// Waits for a connection, and returns the stream with the peer's address.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::accept`].
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let mut ready = self.listener.readable().await?;
            match ready.try_io(|listener| listener.get_ref().accept()) {
                Ok(accepted) => {
                    let (stream, peer) = accepted?;
                    return Ok((TcpStream::new(stream)?, peer));
                }
                Err(_would_block) => {}
            }
        }
    }

    /// Returns the address at which this socket listens.
    ///
    /// # Errors
    /// Like [`std::net::TcpListener::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.get_ref().local_addr()
    }
}
