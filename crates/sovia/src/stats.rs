//! What is known of a stream.

use crate::Reason;
use sovia_sockets::native::{Info, State};

/// Where a stream runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// On TCP, as an ordinary socket of the kernel's that Sovia does not follow.
    Kernel,
    /// On TCP; whether it gets a VI is not decided.
    Meeting,
    /// It has a VI.
    Via,
    /// On TCP for good; why, if that is known.
    Tcp(Option<Reason>),
}

/// Where a stream runs, and what went over its VI since it has one.
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
    /// Where it runs.
    pub path: Path,
    /// What is sent now goes over the VI.
    pub sends: bool,
    /// What is received now comes from the VI.
    pub receives: bool,
    /// Bytes sent over the VI.
    pub bytes_sent: u64,
    /// Messages that carried them: packets of at most 32 KB (64 KB where a buffer was
    /// reserved), and pieces gathered while the window was used up.
    pub messages_sent: u64,
    /// Bytes received over the VI.
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
