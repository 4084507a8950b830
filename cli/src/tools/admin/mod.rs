//! `sovia doctor`, `sovia enable` and `sovia disable`.

pub(crate) mod doctor;
pub(crate) mod enable;
mod unit;
