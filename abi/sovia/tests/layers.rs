//! Checks the order of libsovia's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["kind", "transfer", "zero_copy"], &["connect", "descriptor", "option", "wait"], &["stdio"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
