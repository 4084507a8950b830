//! The VI Architecture: nouns below rules, rules below traits.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Nouns.
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
    // What is written over them.
    &["slots"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("memory", "tag"), ("nic", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
