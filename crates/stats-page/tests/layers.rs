//! Tests that the modules of this crate form layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["parts", "text"], &["process"], &["files"], &["scan"], &["metrics", "pairs", "rates"]];

#[test]
fn modules_import_only_lower_layers() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[("scan", "files")]);
}
