//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["scenario"], &["catalogue", "outcome", "traffic"], &["model", "table", "vis"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("model", "traffic"), ("traffic", "scenario")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
