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
fn each_module_imports_only_what_is_below_it() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[("link", "credit")]);
}
