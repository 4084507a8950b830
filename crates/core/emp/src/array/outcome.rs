//! Outcomes of sends and receives.

use crate::Node;

/// The way in which a send or receive ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The whole message has arrived.
    Done,
    /// The message was longer than the receive that it met. Both ends get this status.
    TooLong,
    /// The peer does not answer.
    PeerDead,
    /// Another process is now at the peer's address, or the peer has given up this station.
    PeerRestarted,
    /// The receive was cancelled.
    Cancelled,
    /// The node does not exist.
    UnknownNode,
    /// The station has been closed.
    Closed,
}

const ALL: [Status; 7] = [
    Status::Done,
    Status::TooLong,
    Status::PeerDead,
    Status::PeerRestarted,
    Status::Cancelled,
    Status::UnknownNode,
    Status::Closed,
];

impl Status {
    /// Returns the code for the first word of a descriptor.
    pub(super) fn code(self) -> u32 {
        2 + self as u32
    }

    pub(super) fn of_code(code: u32) -> Option<Status> {
        ALL.get(code.checked_sub(2)? as usize).copied()
    }
}

/// The outcome of a send or receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The way in which it ended.
    pub status: Status,
    /// The receiver or sender of the message. For a receive that met no message: the node of the post.
    pub node: Node,
    /// The tag of the message. For a receive of any tag that met no message: 0.
    pub tag: u32,
    /// Length of the message in bytes. For a receive with [`Status::TooLong`]: the message's full length.
    pub length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_is_told_from_its_code() {
        for status in ALL {
            assert_eq!(Status::of_code(status.code()), Some(status));
        }
        assert_eq!((Status::of_code(1), Status::of_code(9)), (None, None));
    }
}
