//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["live", "sys"], &["api"], &["manager"], &["device"], &["completion", "region"], &["pair"]];

#[test]
fn modules_import_only_lower_layers() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
