//! The order of this crate's modules, from the segment's words to an endpoint.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["doorbell", "sync"],
    // The contents of the segment, and the two ends' access to them.
    &["pool", "ring", "ready_list"],
    &["layout", "quiet", "undelivered"],
    &["range"],
    &["segment"],
    &["half"],
    &["endpoint", "request"],
    &["fuzzing"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("ring", "sync"), ("segment", "layout"), ("endpoint", "half")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
