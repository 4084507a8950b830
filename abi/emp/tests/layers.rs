//! Checks the layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[&["boundary", "types"], &["station"], &["transfer"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("station", "types"), ("transfer", "station")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
