//! Shared by the fuzz targets. README.md says what each target checks.

pub mod duel;
pub mod gift;
pub mod hand;
pub mod honest;
pub mod input;
pub mod open;
pub mod place;
pub mod stand;
pub mod tcp;
