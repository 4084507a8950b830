//! The kernel connection under a story: one end for the honest side, one for the hostile peer.

use sovia_sockets::fuzzing::Connection;
use sovia_sys::{call, diag};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// Both ends of a connection on the loopback.
#[derive(Debug)]
pub struct Ends {
    /// The end that called `connect`.
    pub connector: TcpStream,
    /// The other end.
    pub acceptor: TcpStream,
}

impl Ends {
    /// Connects.
    ///
    /// # Panics
    /// Where the loopback cannot be had.
    pub fn new() -> Ends {
        static LISTENER: OnceLock<(TcpListener, SocketAddr)> = OnceLock::new();
        let (listener, address) = LISTENER.get_or_init(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("no loopback");
            let address = listener.local_addr().expect("no address");
            (listener, address)
        });
        let connector = TcpStream::connect(address).expect("no connection");
        let (acceptor, _) = listener.accept().expect("no connection");
        for end in [&connector, &acceptor] {
            // Closing resets: thousands of connections a second would use up the ports otherwise.
            let _ =
                call::setsockopt(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &[1i32, 0]);
            end.set_nonblocking(true).expect("a socket can be non-blocking");
        }
        Ends { connector, acceptor }
    }

    /// How the end `sender` names the connection.
    ///
    /// # Panics
    /// If the kernel cannot say.
    pub fn named_by(&self, sender: &TcpStream) -> Connection {
        Connection {
            connector: self.connector.local_addr().expect("no address"),
            acceptor: self.acceptor.local_addr().expect("no address"),
            cookie: diag::cookie(sender.as_raw_fd()).expect("no cookie"),
        }
    }
}

impl Default for Ends {
    fn default() -> Ends {
        Ends::new()
    }
}
