//! Values behind robust locks.

pub(crate) use sovia_sync::RobustBox;
