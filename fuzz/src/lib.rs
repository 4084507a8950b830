//! What the fuzz targets share. README.md says what each target checks.

pub mod gift;
pub mod honest;
pub mod input;
pub mod open;
pub mod stand;
pub mod tcp;
