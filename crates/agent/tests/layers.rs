//! The agent, from its messages up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["closer", "complaints", "counted", "hosts", "numbers", "orders"],
    &["port"],
    &["privilege", "vouch", "wire"],
    &["bundle", "filters", "program"],
    &["connection"],
    &["nic", "switch"],
    // The way in for a fuzzer, in builds that are made for one.
    &["fuzzing"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
