//! What is known of a stream.

use crate::Reason;
use sovia_sockets::native::{Info, State};

/// What went over a stream's VI since it has one, and why it has none for good if so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The stream has a VI.
    pub accelerated: bool,
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
    /// The stream is on TCP for good; why, if that is known.
    pub on_tcp: Option<Option<Reason>>,
}

impl From<Info> for Stats {
    fn from(info: Info) -> Stats {
        Stats {
            accelerated: info.is_accelerated(),
            sends: info.sends != 0,
            receives: info.receives != 0,
            bytes_sent: info.bytes_sent,
            messages_sent: info.messages_sent,
            bytes_received: info.bytes_received,
            on_tcp: (info.state == State::Tcp as u32).then(|| info.reason()),
        }
    }
}
