//! The lane, from its pure parts up.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["counters", "credit", "device", "event", "packet", "peer", "routes"],
    &["link"],
    &["shared"],
    // The way in for a fuzzer, in builds that are made for one.
    &["accept", "connect", "fuzzing", "incoming"],
    &["outgoing"],
    &["lane"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &[("link", "credit")]);
}
