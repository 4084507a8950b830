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
fn each_module_imports_only_what_is_below_it() {
    let known = [("config", "nic")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
