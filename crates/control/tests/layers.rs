//! Tests that the modules of this crate form layers.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["env", "inheritance", "reason", "users"], &["term"], &["rules", "stats"], &["stats_page"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("rules", "term")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
