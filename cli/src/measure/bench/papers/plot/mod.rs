//! Pictures: SVG by itself, without a drawing library.

pub(super) mod bars;
pub(super) mod lines;
mod scale;
mod svg;

pub(super) use svg::escaped;
