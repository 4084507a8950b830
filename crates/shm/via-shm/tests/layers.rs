//! The order of this crate's modules, from links to the NIC.

/// The modules at the crate's root, lowest layer first.
const LAYERS: &[&[&str]] = &[
    &["bias", "hash", "patience", "words"],
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
    let known = [("link", "words"), ("engine", "link"), ("vi", "completion"), ("nic", "vi")];
    sovia_layers::check(env!("CARGO_MANIFEST_DIR"), LAYERS, &known);
}
