//! Tests the order of the lane's modules.

/// Modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["counters", "credit", "device", "event", "packet", "peer", "routes"],
    &["link"],
    &["shared"],
    // `fuzzing` exists only in builds for a fuzzer.
    &["accept", "connect", "fuzzing", "incoming"],
    &["outgoing"],
    &["lane"],
];

#[test]
fn modules_import_only_lower_layers() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[("link", "credit")]);
}
