//! The order of this crate's modules, from the segment's words to the NIC.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["doorbell", "hash", "patience", "sync", "words"],
    // The contents of the segment, and the two ends' access to them.
    &["bias", "pool", "ring", "ready_list"],
    &["layout", "quiet", "undelivered"],
    &["range"],
    &["segment"],
    &["half"],
    &["endpoint", "request"],
    // Links between processes, the engine that watches them, and the rendezvous of two processes.
    &["link"],
    &["engine"],
    &["connect"],
    // The part of a NIC that VIs and completion queues use; then VIs, completion queues, and the types for programs.
    &["card", "fuzzing"],
    &["completion"],
    &["vi"],
    &["cq"],
    &["nic"],
];

#[test]
fn modules_import_only_lower_layers() {
    let known = [("ring", "sync"), ("engine", "link"), ("vi", "completion"), ("nic", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
