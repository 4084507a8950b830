//! Checks the order of the crate's modules.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // Values that C passes, and results for C.
    &["boundary", "first_tag", "hazard", "hosts", "pointer"],
    &["discovery", "handle", "provider"],
    &["types"],
    &["callback", "tags"],
    // Objects of handles, and the calls on them.
    &["nic"],
    &["late", "management", "memory", "names"],
    &["cq"],
    &["tagging", "vi"],
    &["connect", "transfer"],
    &["peer"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("vi", "cq"), ("transfer", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
