//! What comes of a send or a receive.

use crate::Node;

/// How a send or a receive has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The message has come, whole.
    Done,
    /// The message was longer than the receive that it met. Both ends are told.
    TooLong,
    /// The peer does not answer.
    PeerDead,
    /// The peer is another process by now, or has given this one up.
    PeerRestarted,
    /// The receive was cancelled.
    Cancelled,
    /// There is no such node.
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
    /// As the first word of a descriptor has it.
    pub(super) fn code(self) -> u32 {
        2 + self as u32
    }

    pub(super) fn of_code(code: u32) -> Option<Status> {
        ALL.get(code.checked_sub(2)? as usize).copied()
    }
}

/// A send or a receive that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub status: Status,
    /// The node that the message was for, or that it came from. Of a receive that met no message: what it was posted with.
    pub node: Node,
    /// The message's tag. Of a receive of any tag that met no message: 0.
    pub tag: u32,
    /// Bytes of the message; of a receive with [`Status::TooLong`] those that it would have had.
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
