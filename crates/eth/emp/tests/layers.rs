//! A station, from its port up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["config", "memory", "whereabouts"],
    &["nic"],
    &["shared"],
    &["thread"],
    // What a program holds in its hands.
    &["station"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("nic", "whereabouts"), ("shared", "nic"), ("station", "shared")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
