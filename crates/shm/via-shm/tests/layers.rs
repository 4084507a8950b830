//! From the words of the segment up to the NIC.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["doorbell", "hash", "patience", "sync", "words"],
    // What lies in the segment, and how it is handed over.
    &["bias", "pool", "ring", "ready_list"],
    &["layout", "quiet", "undelivered"],
    &["range"],
    &["segment"],
    &["half"],
    &["endpoint", "request"],
    // What a pair of processes shares; the thread that looks after it; how the two find each other.
    &["link"],
    &["engine"],
    &["connect"],
    // What a NIC is to its VIs and completion queues; then those, and what programs have in their hands.
    &["card", "fuzzing"],
    &["completion"],
    &["vi"],
    &["cq"],
    &["nic"],
];

#[test]
fn each_module_imports_only_what_is_below_it() {
    let known = [("ring", "sync"), ("engine", "link"), ("vi", "completion"), ("nic", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
