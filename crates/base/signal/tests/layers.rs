//! Layers of this crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[&["access", "thread"], &["interrupt"], &["chain"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("chain", "access")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
