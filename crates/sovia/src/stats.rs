//! Statistics of a stream.

use crate::Reason;
use sovia_sockets::native::{Info, State};

/// Carrier of a stream's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// TCP: an ordinary kernel socket that Sovia does not follow.
    Kernel,
    /// TCP, while it is not yet decided whether the stream gets a VI.
    Meeting,
    /// A VI.
    Via,
    /// TCP for good, with the reason if it is known.
    Tcp(Option<Reason>),
}

/// The carrier of a stream, and counters of its VI.
///
/// ```
/// use sovia::{Path, TcpStream};
///
/// fn describe(stream: &TcpStream) -> String {
///     let stats = stream.stats();
///     match stats.path {
///         Path::Via => format!("in shared memory, {} bytes so far", stats.bytes_sent),
///         Path::Tcp(Some(reason)) => format!("on TCP: {}", reason.describe()),
///         path => format!("{path:?}"),
///     }
/// }
/// # let listener = sovia::TcpListener::bind("127.0.0.1:0")?;
/// # println!("{}", describe(&TcpStream::connect(listener.local_addr()?)?));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Carrier of the stream's bytes.
    pub path: Path,
    /// True while the stream sends over the VI.
    pub sends: bool,
    /// True while the stream receives from the VI.
    pub receives: bool,
    /// Number of bytes sent over the VI.
    pub bytes_sent: u64,
    /// Number of messages sent over the VI. A message is a packet, or bytes coalesced while the window was used up. A
    /// packet has at most 32 KB (64 KB if a buffer was reserved).
    pub messages_sent: u64,
    /// Number of bytes received over the VI.
    pub bytes_received: u64,
}

impl From<Info> for Stats {
    fn from(info: Info) -> Stats {
        let path = match info.state {
            state if state == State::Meeting as u32 => Path::Meeting,
            state if state == State::Via as u32 => Path::Via,
            state if state == State::Tcp as u32 => Path::Tcp(info.reason()),
            _ => Path::Kernel,
        };
        Stats {
            path,
            sends: info.sends != 0,
            receives: info.receives != 0,
            bytes_sent: info.bytes_sent,
            messages_sent: info.messages_sent,
            bytes_received: info.bytes_received,
        }
    }
}
