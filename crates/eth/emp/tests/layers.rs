//! Checks the layers of this crate's modules, from the port up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "memory", "whereabouts"],
    &["nic"],
    &["shared"],
    &["thread"],
    // The interface for programs.
    &["station"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("nic", "whereabouts"), ("shared", "nic"), ("station", "shared")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
