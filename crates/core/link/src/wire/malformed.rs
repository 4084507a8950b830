//! What is wrong with a frame.

/// Why a frame is dropped. Nothing else is lost with it: where it was corrupt on its way, it will be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is shorter than it says, or than its kind requires.
    #[error("the frame is cut short")]
    Short,
    /// It is longer than its kind allows.
    #[error("the frame is longer than its kind allows")]
    Long,
    /// It is of another version of the format.
    #[error("the frame's version {0} is unknown")]
    Version(u8),
    /// Its bytes are corrupt.
    #[error("the frame's checksum does not match")]
    Checksum,
    /// It has no checksum, on a link that requires one.
    #[error("the frame has no checksum, and this link requires one")]
    Unchecked,
    /// There is no such kind.
    #[error("the frame's kind {0} is unknown")]
    Kind(u8),
    /// A field has a value that it must not have.
    #[error("the frame's field `{0}` has an illegal value")]
    Value(&'static str),
}
