//! The provider between hosts, from its port up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["listening", "station"],
    &["ether"],
    // What a program holds in its hands.
    &["nic"],
    &["config"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("config", "nic")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
