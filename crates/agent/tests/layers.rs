//! Tests the order of the agent's modules.

/// Modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["closer", "complaints", "counted", "hosts", "in_flight", "numbers", "orders"],
    &["port"],
    &["privilege", "vouch", "wire"],
    &["bundle", "filters", "program"],
    &["connection"],
    &["nic", "switch"],
    // `fuzzing` exists only in builds for a fuzzer.
    &["fuzzing"],
];

#[test]
fn modules_import_only_lower_layers() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[]);
}
