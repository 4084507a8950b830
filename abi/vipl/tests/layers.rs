//! VIPL's interface, from what C passes up to the calls.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    // What C passes, and what goes back to it.
    &["boundary", "first_tag", "hazard", "hosts", "pointer"],
    &["discovery", "handle", "provider"],
    &["types"],
    &["callback", "tags"],
    // What handles stand for, and the calls on it.
    &["nic"],
    &["late", "management", "memory", "names"],
    &["cq"],
    &["tagging", "vi"],
    &["connect", "transfer"],
    &["peer"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("vi", "cq"), ("transfer", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
