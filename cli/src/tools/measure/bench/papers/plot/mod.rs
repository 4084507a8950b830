//! Pictures as SVG, without a drawing library.

pub(crate) mod bars;
pub(super) mod lines;
pub(super) mod quotients;
mod scale;
pub(super) mod states;
mod style;
mod svg;

pub(super) use style::PUBLISHED;
pub(crate) use svg::Note;
pub(super) use svg::escaped;
