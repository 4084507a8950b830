//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "driver", "port"],
    &["network"],
    // Types for programs.
    &["nic"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("network", "port"), ("network", "config"), ("nic", "network")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
