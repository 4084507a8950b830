//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["alive", "message", "place", "presence"],
    &["nodes"],
    &["doubts", "moves"],
    &["fabric"],
    &["asking", "exchange"],
    &["arrivals", "nic"],
    &["config"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("fabric", "nodes"), ("config", "nic")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
