//! State of the bytes that a relay lends to its program while relatives share the connection (`crate::relay`).

/// No relay lends bytes, or relatives may have missed bytes or received them twice.
pub(crate) const NONE: u32 = 0;
/// No bytes are lent. Relatives have missed no bytes.
pub(crate) const RETURNED: u32 = 1;
/// Bytes are lent.
pub(crate) const OUT: u32 = 2;
