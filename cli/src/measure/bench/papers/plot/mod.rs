//! Pictures: SVG by itself, without a drawing library.

pub(super) mod bars;
pub(super) mod lines;
pub(super) mod quotients;
mod scale;
pub(super) mod states;
mod style;
mod svg;

pub(super) use style::PUBLISHED;
pub(super) use svg::{Note, escaped};
