//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["arena", "error", "leaving", "object"],
    &["library"],
    &["choice"],
    &["operation"],
    &["endpoint"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("choice", "library"), ("endpoint", "operation")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
