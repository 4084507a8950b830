//! Errors of malformed frames.

/// Reason for which a frame is dropped. A frame that was corrupted on the network will be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The frame is shorter than its length field or its kind requires.
    #[error("the frame is cut short")]
    Short,
    /// The frame is longer than its kind allows.
    #[error("the frame is longer than its kind allows")]
    Long,
    /// The frame has another version of the format.
    #[error("the frame's version {0} is unknown")]
    Version(u8),
    /// The frame's bytes are corrupt.
    #[error("the frame's checksum does not match")]
    Checksum,
    /// The frame has no checksum, on a link that requires one.
    #[error("the frame has no checksum, and this link requires one")]
    Unchecked,
    /// The frame's kind does not exist.
    #[error("the frame's kind {0} is unknown")]
    Kind(u8),
    /// A field has an illegal value.
    #[error("the frame's field `{0}` has an illegal value")]
    Value(&'static str),
}
