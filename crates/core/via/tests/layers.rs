//! Tests the order of the modules: data types, then rules, then traits.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Data types.
    &["address", "bequest", "flags", "state", "tag"],
    &["error"],
    // Rules.
    &["attributes", "cq"],
    &["descriptor"],
    &["queue"],
    &["connection", "event", "memory"],
    // Traits.
    &["vi"],
    &["nic"],
    // Code over the traits.
    &["slots"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("memory", "tag"), ("nic", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
