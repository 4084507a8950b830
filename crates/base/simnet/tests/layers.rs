//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] =
    &[&["dice", "link", "log", "node", "time"], &["fabric", "queue"], &["faults"], &["net"]];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("net", "queue"), ("net", "fabric")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
