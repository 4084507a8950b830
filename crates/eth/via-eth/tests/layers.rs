//! Checks the layers of this crate's modules, from the port up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["listening", "station"],
    &["ether"],
    // The types for programs.
    &["nic"],
    &["config"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("config", "nic")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
