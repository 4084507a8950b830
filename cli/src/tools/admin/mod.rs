//! `sovia doctor`, `sovia enable`, `sovia disable`, `sovia off` and `sovia on`.

pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod switch;
mod unit;
