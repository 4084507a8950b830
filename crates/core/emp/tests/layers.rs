//! Checks the layers of this crate's modules, from frames and descriptors up to the engine.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["array", "ids", "peer", "wire"], &["matching", "message"], &["active"], &["engine"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("message", "wire"), ("active", "ids"), ("engine", "active")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
