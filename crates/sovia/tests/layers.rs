//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["engine", "origin", "readiness", "stats"],
    &["stream"],
    &["buffer", "listener"],
    &["mio", "tokio"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("listener", "stream")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
